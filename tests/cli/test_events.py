"""Types of events depend neither on blocks nor on whether Arrow or Python reads them."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_both_ways import COLUMNS
from tocsin.cli.events import open_events
from tocsin.cli.events.text_values import fits, infer, parse
from tocsin.cli.formatting import to_json_lines
from tocsin.errors import TocsinError
from tocsin.model.schema import Schema

TEXTS = [text for line in COLUMNS for text in line.split("|") if text]


@given(st.lists(st.sampled_from(TEXTS), max_size=12), st.integers(0, 12))
def test_a_type_does_not_depend_on_blocks(texts, cut):
    column = pa.array(texts, pa.string())
    whole = infer(column, pa.null())
    assert infer(column.slice(cut), infer(column.slice(0, cut), pa.null())) == whole
    one_by_one = pa.null()
    for i in range(len(texts)):
        one_by_one = infer(column.slice(i, 1), one_by_one)
    assert one_by_one == whole
    if texts:
        assert fits(column, whole)
        assert len(parse(column, whole)) == len(texts)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**63, -(2**70), 0, 10**39]),
    st.floats(),
    st.sampled_from(["", "a", "2024-05-01", "2024-05-01T12:30Z", "12:30", "é\n", "\x00"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abC"), inner)
    ),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "z"]), VALUES), min_size=1)


def read(path, block):
    """Return the type and the values of events, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.cli.events.json_files._BLOCK", block)
        try:
            events = open_events([path], "json", Schema({}), lambda count: None)
            batches = list(events.batches(path, events.schema.names))
        except TocsinError as error:
            return str(error)
    lines = [bytes(to_json_lines(events.schema.names, batch.columns)) for batch in batches]
    return str(events.schema), b"".join(lines)


@given(rows=OBJECTS)
def test_arrow_and_python_read_the_same_json(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("json") / "events.jsonl"
    lines = [json.dumps({"row": 1, **row}) for row in rows]
    path.write_text("\n".join(lines))

    # With one row per block, and with one block: each block has its own type.
    by_arrow = [read(path, block) for block in (1, 1 << 20)]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("infer_block", "read_block"):
            patch.setattr(f"tocsin.cli.events.json_files.{name}", lambda *given: None)
        by_python = read(path, 1 << 20)
    assert by_arrow == [by_python, by_python]


def test_a_header_of_very_many_columns(tmp_path):
    """In steps that grow with the square of the columns, it would take minutes."""
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(50_000)]
    path.write_text(",".join(names) + "\n")
    events = open_events([path], "csv", Schema({}), lambda count: None)
    assert events.schema.names == names
