"""How long the first result takes with nothing compiled, and which kernels take how long.

    python -m benchmarks.first_call [--kernels PREFIX]

The first figures are of a new process that runs the README's example: with an empty cache and with
a full one, from start to end. With `--kernels`, it compiles all kernels of modules that begin with
a prefix, such as `tocsin.index.keyed`, each by itself, and prints the seconds of processor time.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

import tocsin
from tocsin import jit

REPETITIONS = 3
EXAMPLE = """
import tocsin
rules = tocsin.Rules({"x": "number", "y": "number", "tier": "category"})
rules.add("dock-4", "x BETWEEN 3 AND 8 AND y >= 3 AND y < 9")
rules.add("gold", "tier IN ('gold', 'black') AND x > 5", weights={"tier": 0.6, "x": 0.4})
matches = rules.match([{"x": 4, "y": 4}, {"x": 6, "y": 8.5, "tier": "gold"}, {"x": 1}])
assert len(matches) == 3, matches
"""


@jit.kernel
def nothing(out: jit.Int64Out) -> None:
    """Compile something first: the first compilation of a process also starts Numba."""
    out[0] = np.int64(0)


def time_example(cache: str) -> tuple[float, float]:
    """Return the seconds of a process that runs the example, and those of processor time."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", EXAMPLE], check=True, env=os.environ | {"TOCSIN_CACHE_DIR": cache}
    )
    seconds, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def time_kernel(kernel: jit.Kernel) -> float:
    """Return the seconds of processor time that a kernel takes to compile, in a process of its own.

    Kernels compiled before it would have compiled some of its steps.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        start = time.process_time()
        kernel.compile()
        os.write(sending, str(time.process_time() - start).encode())
        os._exit(0)
    os.waitpid(child, 0)
    seconds = float(os.read(receiving, 100))
    os.close(receiving)
    os.close(sending)
    return seconds


def import_all() -> None:
    """Import all modules that have kernels."""
    for module in pkgutil.walk_packages(tocsin.__path__, "tocsin."):
        if not module.name.startswith(("tocsin.spark", "tocsin.cli", "tocsin.__main__")):
            importlib.import_module(module.name)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernels", metavar="PREFIX")
    prefix = parser.parse_args().kernels
    if prefix is None:
        empty, full = [], []
        for _ in range(REPETITIONS):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(time_example(cache))
                full.append(time_example(cache))
        for name, times in ("an empty", empty), ("a full", full):
            seconds, used = map(median, zip(*times, strict=True))
            print(f"first result from {name} cache: {seconds:.2f} s ({used:.2f} s of processor)")
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TOCSIN_CACHE_DIR"] = cache
        import_all()
        nothing.compile()
        kernels = [each for each in jit._KERNELS if each.function.__module__.startswith(prefix)]
        took = {each: time_kernel(each) for each in kernels}
    for each in sorted(took, key=lambda each: -took[each]):
        print(f"{took[each]:7.2f} s  {each.function.__module__}.{each.function.__qualname__}")
    print(f"{sum(took.values()):7.2f} s  all {len(took)}")


if __name__ == "__main__":
    main()
