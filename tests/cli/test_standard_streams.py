"""If a command cannot print, that is one message and exit code 1."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import run_ok
from tocsin.cli.main import tocsin as command

FULL = Path("/dev/full")

COMMANDS = [
    "--help",
    "--version",
    "rules --help",
    "rules create new --schema x=number",
    "rules add store more 'x > 5'",
    "rules list store",
    "rules show store low",
    "rules versions store",
    "rules diff store 1",
    "rules prune store --keep 5",
    "rules merge store",
    "explain --rules store low --event {}",
    "plan --rules store",
    "match --rules store --events events.csv --out out.csv",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_ok("rules", "create", "store", "--schema", "x=number")
    run_ok("rules", "add", "store", "low", "x < 1")
    Path("events.csv").write_text("x\n0\n")
    return tmp_path


@pytest.mark.skipif(not FULL.exists(), reason="Linux has a device that is always full")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_full_disk(folder, line, monkeypatch, capsys):
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as stopped:
            command(line.replace("'x > 5'", "x>5").split())
        assert stopped.value.code == 1
    message = capsys.readouterr().err
    assert message == "error: cannot write to stdout: No space left on device\n"


def shell(line, folder):
    """Run a line of shell in which tocsin is a function; stdout is buffered as usual."""
    text = f'tocsin() {{ "{sys.executable}" -m tocsin "$@"; }}; {line}'
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    run = subprocess.run(["sh", "-c", text], cwd=folder, capture_output=True, text=True, env=env)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.skipif(not FULL.exists(), reason="Linux has a device that is always full")
def test_the_program_on_a_full_disk(folder):
    message = "error: cannot write to stdout: No space left on device\n"
    assert shell("tocsin rules list store > /dev/full", folder) == (1, "", message)
    assert shell("tocsin rules list none 2> /dev/full", folder) == (1, "", "")


def test_streams_that_are_closed(folder):
    message = "error: stdout is closed; to discard the output, redirect it to /dev/null\n"
    assert shell("tocsin rules list store >&-", folder) == (1, "", message)
    code, printed, _ = shell("tocsin rules list store 2>&-", folder)
    assert (code, printed.splitlines()[0].split()) == (0, ["id", "condition", "payload"])
    assert shell("tocsin rules list none 2>&-", folder) == (1, "", "")


def test_a_reader_that_stops_early(folder):
    line = "{ tocsin rules list store; echo $? >&2; } | true"
    assert shell(line, folder) == (0, "", "1\n")
