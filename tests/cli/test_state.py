"""`tocsin state`: what it lists, and what it deletes."""

import pytest

from tests.cli.commands import run_failing, run_ok
from tests.moving.test_bucket_states import fences, forget_memory, settled, step
from tocsin.engine.storage.folder import Folder


@pytest.fixture
def folder(tmp_path):
    forget_memory()
    states, rules = settled(Folder(tmp_path), "q-1"), fences(1)
    for batch in range(3):
        step(states, batch, [(f"object {batch}", 0.5), ("a", 0.5)], rules, bucket=batch % 2)
    return tmp_path


def test_states_are_listed_and_dropped(folder):
    headings, row = run_ok("state", "list", folder).splitlines()
    assert headings.split() == ["query", "buckets", "batch", "used", "objects", "states", "bytes"]
    cells = row.split()
    assert [*cells[:3], *cells[-3:-1]] == ["q-1", "2", "2", "5", "3"]
    assert int(cells[-1].replace(",", "")) > 1000
    assert run_ok("state", "drop", folder, "q-1", 2) == "deleted 1 state\n"
    assert run_ok("state", "list", folder).splitlines()[1].split()[:3] == ["q-1", "2", "1"]
    assert run_ok("state", "drop", folder, "q-1", 0) == "deleted 2 states\n"
    assert run_ok("state", "list", folder) == "no states yet\n"


def test_what_is_not_there(folder, tmp_path):
    message = run_failing("state", "drop", folder, "q-2", 0)
    assert "there are no states of query 'q-2'" in message
    assert "those of q-1" in message
    assert "is not the id of a streaming query" in run_failing("state", "drop", folder, "a/b", 0)
    assert run_ok("state", "list", tmp_path / "nothing") == "no states yet\n"
    run_failing("state", "drop", folder, "q-1", -1, code=2)
