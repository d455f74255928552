"""The command `tocsin demo`; large packages are imported when it runs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tocsin.cli.options import LocalPath

_PACKAGES = ("pyspark", "pandas", "matplotlib", "rich")
_MARKER = "made-by-tocsin-demo.txt"
_OUTPUTS = ("rules", "events", "matches", "checkpoint", "demo.png", "spark.log")


@click.command()
@click.option(
    "--out",
    type=LocalPath(file_okay=False),
    default=Path("tocsin-demo"),
    show_default=True,
    help="Folder for rules, events, matches and picture.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1_000),
    default=300_000,
    show_default=True,
    help="Number of events to stream.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    help="Seed of the city and its traffic.",
)
def demo(out: Path, events: int, seed: int) -> None:
    """Match a city's traffic with thousands of rules, and change one rule on the way.

    The demo generates a city, several thousand rules in a rule store, and vehicles that send
    their positions. The positions stream through Spark. Halfway, a rule is replaced while the
    stream runs. At the end all matches are checked. It takes half a minute on two
    cores, with kernels to compile.
    """
    _check_requirements()
    _prepare_folder(out)
    try:
        _run(out, events, seed)
    except KeyboardInterrupt:
        click.echo(f"\nstopped; {out} has the results so far, which the next run replaces")
        sys.exit(130)


def _run(out: Path, events: int, seed: int) -> None:
    import pyarrow as pa

    import tocsin.spark
    from tocsin.cli.demo import city as cities
    from tocsin.cli.demo import fences, picture, stream, traffic
    from tocsin.cli.demo.screen import Screen, open_console

    city = cities.build(seed)
    rules = fences.build(city, seed)
    screen = Screen(open_console(), events, rules)
    screen.line(
        f"A city with {len(city.edges):,} streets and {len(rules):,} rules; "
        f"{events:,} pings between 7:00 and 9:00"
    )
    with screen.step("generate traffic, create a rule store"):
        pings = traffic.simulate(city, events, seed)
        parts = stream.split(pings, stream.BATCHES)
        store = stream.publish(out / "rules", rules)
    with screen.step("start Spark (the first run also compiles kernels)"):
        spark = _start_spark(tocsin.spark, out / "spark.log")
    with screen.live():
        for report in stream.run(spark, out, store, parts):
            screen.show(report)
    with screen.step("check: match all events again in this process, with the recorded versions"):
        verdict = stream.check(store, parts, screen.batches)
    with screen.step("draw a picture"):
        matches = pa.concat_tables(b.matches for b in screen.batches)
        first_after = parts[stream.change_batch(parts)]["ping"][0].as_py()
        picture.draw(out / "demo.png", city, rules, pings, matches, first_after)
    screen.print_summary(verdict)
    if not verdict.is_equal:
        raise click.ClickException("the matches of the stream differ from those of one process")
    for line in _next_steps(out, matches):
        screen.line(line)


def _next_steps(out: Path, matches: Any) -> Iterator[str]:
    from tocsin.cli.demo import fences

    rows = matches.select(["rule", "x", "y", "speed", "kind"]).to_pylist()
    event = next((r for r in reversed(rows) if r.pop("rule") == fences.ALARM), None)
    yield f"picture: {out / 'demo.png'}"
    yield ""
    yield "Next steps:"
    # `make demo` runs in a virtual environment that may not be active.
    script = Path(sys.executable).with_name("tocsin")
    is_on_path = shutil.which("tocsin") or not script.exists()
    name = "tocsin" if is_on_path else os.path.relpath(script)
    yield f"  {name} rules list {out / 'rules'} --limit 5"
    yield f"  {name} rules diff {out / 'rules'} 2 3"
    if event:
        explain = f"{name} explain --rules {out / 'rules'} {fences.ALARM}"
        yield f"  {explain} --event '{json.dumps(event)}'"
        yield f"  {explain} --event '{json.dumps(event)}' --version 2"
    yield f"  {name} match --rules {out / 'rules'} --events {out / 'events'} --out matches.parquet"


def _start_spark(spark: Any, log: Path) -> Any:
    """Return a session whose JVM, if it starts now, writes to a file instead of the terminal."""
    from tocsin.cli.progress import redirect_stderr

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        with redirect_stderr(log):
            return spark.session("tocsin demo")
    except Exception as error:
        raise click.ClickException(f"Spark did not start; see {log}\n  {error}") from None


def _check_requirements() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"the demo needs {', '.join(missing)}; install with: pip install 'tocsin[demo]'"
        )
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(f"{home}/bin/java" if home else "java"):
        raise click.ClickException(
            "Spark needs Java 17 or newer, but there is no Java on PATH or in JAVA_HOME; "
            "on Debian: apt-get install openjdk-17-jre-headless"
        )


def _prepare_folder(out: Path) -> None:
    """Create the folder, or delete the output of an earlier demo; refuse any other folder."""
    marker = out / _MARKER
    if out.is_dir() and any(out.iterdir()) and not marker.exists():
        raise click.ClickException(
            f"{out} is not empty and was not created by the demo; name another folder with --out"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        marker.write_text("`tocsin demo` created this folder and replaces it in its next run.\n")
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error}") from None
    for name in _OUTPUTS:
        entry = out / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            with contextlib.suppress(FileNotFoundError):
                entry.unlink()
