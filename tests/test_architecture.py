"""The walks through the code in ARCHITECTURE.md name files and functions that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WALKS = ["The path of an event", "The path of a rule", "The path of a micro-batch"]


@pytest.mark.parametrize("walk", WALKS)
def test_every_hop_exists(walk):
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition(f"## {walk}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 10
    for step, files, functions in rows:
        paths = [ROOT / "src" / "tocsin" / path for path in re.findall(r"`([\w/]+\.py)`", files)]
        for path in paths:
            assert path.is_file(), step
        sources = [path.read_text() for path in paths]
        if "the index" in files:
            sources.append((ROOT / "src" / "tocsin" / "index" / "protocol.py").read_text())
        names = re.findall(r"`([\w.]+)`", functions)
        assert names, step
        for name in names:
            owner, _, function = name.rpartition(".")
            defined = rf"(def|class) {function}\b"
            assert any(re.search(defined, source) for source in sources), (step, name)
            if owner:
                assert any(re.search(rf"class {owner}\b", source) for source in sources), name
