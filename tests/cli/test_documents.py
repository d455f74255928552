"""The output in docs/command-line.md is the output of the commands."""

import re
import shlex
from pathlib import Path

from tests.cli.commands import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "command-line.md"


def transcript():
    """Yield the commands of the document, and their output."""
    blocks = re.findall(r"^```console\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield piece.split("\n", 1)


def without_timings(text):
    """Return the lines of a text without times and rates, which differ from run to run."""
    text = re.sub(r"in [\d,.]+ s \([\d,.]+ (events|positions)", r"in ... s (... \1", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "now", text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_commands_of_the_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = list(transcript())
    assert len(shown) > 15
    for command, output in shown:
        program, *arguments = shlex.split(command)
        if program == "cat":
            file = Path(arguments[0])
            if not file.exists():  # no command has written it: it is input
                file.write_text(output)
            printed = file.read_text()
        else:
            assert program == "tocsin"
            printed = run(*arguments).output
        assert without_timings(printed) == without_timings(output), command
