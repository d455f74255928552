"""Benchmarks run; what they print at this size means nothing."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import calibrate, compare, compare_rows
from tocsin.index import unit_costs

in_long_runs = pytest.mark.skipif(
    os.environ.get("TOCSIN_PROFILE") != "long", reason="takes a minute"
)


@pytest.fixture
def output_of(monkeypatch, capsys):
    """A function that runs a benchmark at a tiny size in this process, and returns its output."""

    def run(name, *options):
        module = importlib.import_module(f"benchmarks.{name}")
        monkeypatch.setattr(module, "use_one_core", lambda: None, raising=False)
        monkeypatch.setattr(sys, "argv", [name, "--size", "tiny", *options])
        module.main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def output_on_spark(output_of, spark, monkeypatch):
    """The same for benchmarks on Spark, with the session of all tests."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    return output_of


def test_the_spine(output_of):
    output = output_of("spine")
    assert "sparse rules" in output
    assert "blocked NumPy" in output


def test_first_call():
    command = [sys.executable, "-m", "benchmarks.first_call", "--kernels", "tocsin.model.facts"]
    root = Path(__file__).parent.parent
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert "s  tocsin.model.facts." in run.stdout
    assert "s  all " in run.stdout


def test_range_matching(output_of):
    output = output_of("range_matching")
    for name in ("W1", "W2", "W3", "W4", "W5", "W6", "mixed", "tree_join", "superintervals", "p99"):
        assert name in output
    assert "failed" not in output


def test_boolean_matching(output_of):
    output = output_of("boolean_matching")
    for name in ("A, uniform", "B, Zipf", "counting", "exhaustive", "exchanged", "p99", "Growth"):
        assert name in output


def test_real_rules(output_of):
    output = output_of("real_rules")
    for name in ("alerts", "signatures", "mixture", "list_contains", "regret", "A million rules"):
        assert name in output


def test_the_planner(output_of):
    families = ("flight alerts", "operations segments", "fault codes")
    output = output_of("planner", "--only", ",".join(families))
    for row in (*families, "The second families", "default"):
        assert row in output


def test_similarity(output_of):
    output = output_of("similarity")
    for name in ("2-D", "32-D", "scipy", "sklearn", "faiss", "SedonaDB", "ego_star", "join_blocks"):
        assert name in output


def test_uncertain(output_of):
    output = output_of("uncertain")
    for name in (
        "minimum, uniform",
        "nearest, histogram",
        "thesis' loop",
        "FFT convolution",
        "minexp",
    ):
        assert name in output


def test_covering(output_of):
    output = output_of("covering")
    for name in ("k-d tree", "Z-curve", "NumPy", "R*-tree", "per command", "per search", "Targets"):
        assert name in output


def test_moving_objects(output_of):
    output = output_of("moving")
    for name in ("integer keys", "text keys", "pandas", "DuckDB", "NumPy", "`add`", "`remove`"):
        assert name in output
    for name in (
        "velocity index",
        "`v_max`",
        "Zipf, none",
        "uniform, rect",
        "rect within 10 times",
    ):
        assert name in output


def test_points_in_polygons(output_of):
    output = output_of("shapes", "--only", "stars,polygons")
    for name in (
        "Stars",
        "Polygons",
        "shapely, tree of shapes",
        "tg (togo)",
        "memory of the rules",
    ):
        assert name in output


def test_threads(output_of):
    output = output_of("threads")
    for task in ("W2", "W5", "B, 3,000 events x 1,000 rules: top 5"):
        assert task in output


def test_spark_matching(output_on_spark):
    output = output_on_spark("spark_matching")
    assert "identity" in output
    assert "publish one changed rule" in output


@in_long_runs
def test_similarity_on_spark(output_on_spark):
    output = output_on_spark("similarity_spark")
    for way in ("similarity_join", "by hand: cells over 2", "MLlib's LSH join", "cross join"):
        assert way in output


def test_calibration(output_of):
    output = output_of("calibrate")
    for name in calibrate.UNITS:
        assert name in output


def test_the_unit_costs_are_as_generated():
    assert calibrate.FILE.read_text() == calibrate.render_module(calibrate.values_in_use())
    names = {name for name in vars(unit_costs) if name.isupper()}
    assert names == set(calibrate.UNITS)


@pytest.mark.parametrize(
    ("measured", "written"), [(20.0, 40.0), (80.0, 40.0), (19.9, 20.0), (123.4, 120.0)]
)
def test_a_unit_cost_in_use_stays_unless_it_is_far_off(measured, written):
    used = calibrate.values_in_use()
    chosen = calibrate.choose_values(used, used | {"FIND": measured})
    assert chosen == used | {"FIND": written}


def test_a_unit_cost_below_zero_is_not_written():
    used = calibrate.values_in_use()
    with pytest.raises(SystemExit, match="FIND came out below zero"):
        calibrate.choose_values(used, used | {"FIND": -1.0})


def test_unit_costs_that_were_written_are_read_again():
    values = {name: float(i) for i, name in enumerate(calibrate.UNITS)}
    namespace = {}
    exec(calibrate.render_module(values), namespace)
    assert {name: namespace[name] for name in values} == values


@in_long_runs
def test_uncertain_on_spark(output_on_spark):
    output = output_on_spark("uncertain_spark")
    for name in ("identity", "in_range"):
        assert name in output


@in_long_runs
def test_moving_objects_on_spark(output_on_spark):
    output = output_on_spark("moving_spark")
    for way in ("`monitor`", "`applyInPandasWithState`"):
        assert way in output


# ------------------------------------------------------------ two commits


def test_a_commit_compared_with_the_working_tree(output_of):
    output = output_of("compare", "HEAD", "--rows", "uncertain", "--rounds", "1")
    assert re.search(r"uncertain/minimum +│ +[\d.]+ ms │ +[\d.]+ ms │ +[\d.]+ │", output)
    assert "worst row: uncertain/minimum" in output


@pytest.mark.parametrize("row", [row for row in compare_rows.ROWS if row != "spark/match"])
def test_a_row_runs(row):
    assert compare_rows.best_seconds(row, 0.01) > 0


def test_the_row_on_spark_runs(spark):
    assert compare_rows.best_seconds("spark/match", 0.01) > 0


def compare_fakes(rounds, **seconds):
    """Compare rows whose seconds in each run of the old and of the new commit are given."""
    left = {row: [iter(each) for each in both] for row, both in seconds.items()}
    runs = []

    def measure(which, row):
        runs.append((which, row))
        value = next(left[row][which])
        if isinstance(value, str):
            raise compare.RowError(value)
        return value

    return compare.compare(list(seconds), rounds, measure), runs


def test_rounds_take_turns_and_the_first_does_not_count():
    (row,), runs = compare_fakes(3, a=([9, 1, 2, 4], [1, 2, 3, 20]))
    assert [which for which, _ in runs] == [1, 0, 0, 1, 1, 0, 0, 1]
    assert row.ratios() == [2, 1.5, 5]
    assert row.cells() == ("a", "2,000.0 ms", "3,000.0 ms", "2.00", "1.50 to 5.00")


def test_a_row_that_an_old_commit_lacks():
    rows, runs = compare_fakes(1, a=(["no such method"], [1]), b=([1, 1], [1, 1.2]))
    assert runs.count((1, "a")) == 1  # measured no more
    assert rows[0].cells()[-1] == "fails in OLD: no such method"
    assert compare.summarise(rows) == (
        "median ratio of all rows: 1.20 (at most 1.10: not met); worst row: b, 1.20"
    )
    assert compare.summarise(rows[:1]) == "no row runs in both OLD and NEW"


def test_the_median_ratio_of_rows():
    rows, _ = compare_fakes(1, a=([1, 1], [1, 2]), b=([1, 2], [1, 2]), c=([1, 4], [1, 3]))
    assert compare.summarise(rows) == (
        "median ratio of all rows: 1.00 (at most 1.10: met); worst row: a, 2.00"
    )


def test_a_row_that_fails_in_its_process(tmp_path):
    with pytest.raises(compare.RowError, match=r"^KeyError: 'no-row'$"):
        compare.run_row(tmp_path, "no-row", 1)


def test_a_row_that_runs_another_tocsin(tmp_path):
    with pytest.raises(SystemExit, match=r"ran the Tocsin in .* instead of the one in"):
        compare.run_row(tmp_path, "uncertain/minimum", 0.01)


def test_what_cannot_be_compared(output_of):
    with pytest.raises(SystemExit, match=r"'no-branch' is not a commit .* HEAD~3"):
        output_of("compare", "no-branch")
    with pytest.raises(SystemExit, match="there is no row or page 'rage'; rows: spine/add-many,"):
        output_of("compare", "HEAD", "--rows", "rage")


def test_rows_are_chosen_by_name_or_by_page():
    assert compare.choose_rows(["spark", "range/squares"]) == [
        "spark/publish",
        "range/squares",
        "spark/match",
    ]
    assert compare.choose_rows([]) == list(compare_rows.ROWS)
