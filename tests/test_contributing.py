"""The example index in CONTRIBUTING.md is one: it keeps the promises of the protocol."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.conformance import checks
from tests.conformance.test_every_index import CHECKS, WORKLOADS


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = tmp_path_factory.mktemp("example") / "everything_index.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    yield module.Everything
    del sys.modules[path.stem]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_promises(everything, check, tmp_path):
    work = checks.Workload(*WORKLOADS["mixed"])
    index = everything.build(work.conjunctions, work.schema.floats())
    check(index, work, *[tmp_path] * (check.__name__ == "check_arrays_round_trip"))
