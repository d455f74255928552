"""The examples in CONTRIBUTING.md are complete: what they add works."""

import importlib.util
import sys
from random import Random
from zoneinfo import ZoneInfo

import pytest
from sqlglot import exp

import tocsin
from tests.cli.commands import run_ok
from tests.conformance import checks
from tests.conformance.test_every_index import CHECKS, WORKLOADS
from tests.documents import ROOT, examples
from tests.model.terms.columns import read
from tests.model.terms.events import table
from tocsin.cli.main import COMMANDS
from tocsin.model.terms import calls
from tocsin.model.terms.functions.table import ALIASES, FUNCTIONS

PAGE = "CONTRIBUTING.md"


def sources(heading):
    """Return the blocks of Python below a heading."""
    text = (ROOT / PAGE).read_text()
    before, section = text.split(f"## {heading}\n")
    first = before.count("\n")
    stop = first + section.partition("\n## ")[0].count("\n")
    return [each.source for each in examples(PAGE) if first < each.line <= stop]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """A function that imports a block as a module with a name, and returns its path as well."""
    names = []

    def load(name, source):
        path = tmp_path_factory.mktemp("example") / f"{name.rpartition('.')[2]}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in names:
        del sys.modules[name]


# ------------------------------------------------------------ an index


@pytest.fixture(scope="module")
def everything(load):
    (source,) = sources("Add an index")
    return load("everything_index", source).Everything


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_index_keeps_the_promises(everything, check, tmp_path):
    work = checks.Workload(*WORKLOADS["mixed"])
    index = everything.build(work.conjunctions, work.schema.floats())
    check(index, work, *[tmp_path] * (check.__name__ == "check_arrays_round_trip"))


# ------------------------------------------------------------ a function


def test_the_function_computes_what_spark_computes(spark, load, monkeypatch):
    from tests.model.terms.test_spark_is_the_judge import ask_spark, compare, same

    (source,) = sources("Add a function of the rule language")
    function = load("signum", source).SIGNUM
    monkeypatch.setitem(FUNCTIONS, function.name, function)
    line = 'exp.Sign: ("signum", ("this",))'
    assert line in (ROOT / PAGE).read_text()
    monkeypatch.setitem(calls.CALLS, exp.Sign, ("signum", ("this",)))
    for alias in function.aliases:
        monkeypatch.setitem(ALIASES, alias, function.name)
    texts = [same(f"{name}({of})") for name in ("signum", "sign") for of in ("n", "x", "d", "-7")]
    events = table(Random(3), 100)
    found = [read(text.tocsin, ZoneInfo("UTC")) for text in texts]
    answers = ask_spark(spark, events, [text.spark for text in texts], "UTC")
    assert not compare(events, texts, found, answers, "UTC")
    with pytest.raises(tocsin.ConditionError, match="signum needs a number"):
        tocsin.Rules({"name": "category"}).add("r", "signum(name) = 1")


# ------------------------------------------------------------ a command


def test_the_command_passes_its_test(load, monkeypatch, tmp_path):
    command, test = sources("Add a command")
    load("tocsin.cli.size", command)
    assert '"size": "tocsin.cli.size:size"' in (ROOT / PAGE).read_text()
    monkeypatch.setitem(COMMANDS, "size", "tocsin.cli.size:size")
    load("test_size", test).test_size(tmp_path)
    assert "size       Show how many rules a store has" in run_ok("--help")


# ------------------------------------------------------------ an operator


def test_the_operator_passes_its_test(spark, load):
    operator, test = sources("Add an operator on Spark")
    module = load("unmatched", operator)
    # Workers import what is in no package by its name.
    spark.addArtifacts(module.__file__, pyfile=True)
    test = test.replace("tocsin.spark.unmatched", "unmatched")
    load("test_unmatched", test).test_unmatched(spark)
