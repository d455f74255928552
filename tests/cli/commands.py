"""Run commands of `tocsin` in this process, and write files for them."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from tocsin.cli.main import tocsin as command


def run(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments])


def run_ok(*arguments):
    """Run a command that must succeed, and return its output."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return result.stdout


def run_failing(*arguments, code=1):
    """Run a command that must fail, and return its message, which is its only output."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert not result.stdout
    if code == 1:
        assert isinstance(result.exception, SystemExit)
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
    return result.stderr


def write_rules(path, rows):
    """Write rules to a file."""
    if path.suffix == ".parquet":
        rows = [dict(r, weights=list((r.get("weights") or {}).items()) or None) for r in rows]
        names = dict.fromkeys(n for r in rows for n in r)
        map_ = {"weights": pa.map_(pa.string(), pa.float64())}
        columns = {n: pa.array([r.get(n) for r in rows], map_.get(n)) for n in names}
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            for r in rows:
                weights = {"weights": json.dumps(r["weights"])} if r.get("weights") else {}
                writer.writerow(r | weights)
    return path
