"""Every figure can be made at a tiny size; what its verdict says then means nothing."""

import itertools
import json

import pytest

from experiments import (
    answer_sets,
    bestar,
    bestar_sweeps,
    measuring,
)
from experiments.__main__ import FIGURES, main
from experiments.verdicts import FAILS, HOLDS, OUTCOMES, OWN, UNTESTED


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return where all figures are.

    How many rounds there are depends on how fast the machine is: here each measurement that does
    not fix their number has another one.
    """
    out = tmp_path_factory.mktemp("experiments")
    numbers = itertools.cycle([3, 5, 4])

    def time_rounds(calls, seconds, rounds=None, least=measuring.LEAST_ROUNDS):
        if rounds is None and least == measuring.LEAST_ROUNDS:
            rounds = least = next(numbers)
        return original(calls, seconds, rounds or least, least)

    original = measuring.time_rounds
    with pytest.MonkeyPatch.context() as patch:
        for module in (measuring, answer_sets, bestar, bestar_sweeps):
            patch.setattr(module, "time_rounds", time_rounds)
        main(["--size", "tiny", "--out", str(out)])
    return out


def test_every_figure_has_a_picture_and_a_verdict(folder):
    records = json.loads((folder / "experiments" / "findings.json").read_text())
    page = (folder / "experiments.md").read_text()
    assert list(records) == list(FIGURES)
    for name, record in records.items():
        assert record["name"] == name
        assert record["verdict"] in (HOLDS, FAILS, UNTESTED, OWN, *OUTCOMES)
        if not record["untested"]:
            assert (folder / "experiments" / f"{name}.png").stat().st_size > 10_000
            assert f"experiments/{name}.png" in page
        assert record["line"] in page
    assert "claims of the thesis' chapter 2, " in page


def test_one_figure_alone_keeps_the_others(folder):
    before = json.loads((folder / "experiments" / "findings.json").read_text())
    main(["--size", "tiny", "--only", "vcr-hashing", "--out", str(folder)])
    after = json.loads((folder / "experiments" / "findings.json").read_text())
    assert list(after) == list(before)
    del before["vcr-hashing"], after["vcr-hashing"]
    assert after == before
