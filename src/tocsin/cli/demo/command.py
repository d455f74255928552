"""`tocsin demo`: the command; everything heavy is imported when it runs."""

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

_NEEDS = ("pyspark", "pandas", "matplotlib", "rich")
_MARKER = "made-by-tocsin-demo.txt"
_MADE = ("rules", "events", "matches", "checkpoint", "demo.png", "spark.log")


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tocsin-demo"),
    show_default=True,
    help="Folder for the rules, events, matches and the picture.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1_000),
    default=300_000,
    show_default=True,
    help="How many events to stream.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=7, show_default=True, help="Another city."
)
def demo(out: Path, events: int, seed: int) -> None:
    """Stream a city's traffic past thousands of rules, and change one on the way.

    A seeded city, some thousand rules in a rule store, and vehicles that ping as they drive:
    the pings stream through Spark, half-way a rule is replaced while the stream runs, and at
    the end every match is checked. About a minute on two cores.
    """
    _check_needs()
    _prepare(out)
    try:
        _run(out, events, seed)
    except KeyboardInterrupt:
        click.echo(f"\nstopped; {out} holds what was done so far, and is replaced by the next run")
        sys.exit(130)


def _run(out: Path, events: int, seed: int) -> None:
    import pyarrow as pa

    import tocsin.spark
    from tocsin.cli.demo import city as plan
    from tocsin.cli.demo import fences, picture, stream, traffic
    from tocsin.cli.demo.screen import Screen, console

    city = plan.build(seed)
    rules = fences.write(city, seed)
    screen = Screen(console(), events, rules)
    screen.line(
        f"A city of {len(city.edges):,} streets and {len(rules):,} rules; "
        f"{events:,} pings between 7 and 9 in the morning"
    )
    with screen.step("traffic and a rule store"):
        pings = traffic.drive(city, events, seed)
        parts = stream.split(pings, stream.BATCHES)
        store = stream.publish(out / "rules", rules)
    with screen.step("Spark starts (the first time, kernels are compiled as well)"):
        spark = _session(tocsin.spark, out / "spark.log")
    with screen.live():
        for moment in stream.play(spark, out, store, parts):
            screen.show(moment)
    with screen.step("check: all events again in this process, at the versions recorded"):
        verdict = stream.check(store, parts, screen.batches)
    with screen.step("picture"):
        matches = pa.concat_tables(b.matches for b in screen.batches)
        first_after = parts[stream.half(parts)]["ping"][0].as_py()
        picture.paint(out / "demo.png", city, rules, pings, matches, first_after)
    screen.summary(verdict)
    if not verdict.equal:
        raise click.ClickException("the stream's matches are NOT those of one process: a bug")
    for line in _next_steps(out, matches):
        screen.line(line)


def _next_steps(out: Path, matches: Any) -> Iterator[str]:
    from tocsin.cli.demo import fences

    rows = matches.select(["rule", "x", "y", "speed", "kind"]).to_pylist()
    event = next((r for r in reversed(rows) if r.pop("rule") == fences.ALARM), None)
    yield f"picture: {out / 'demo.png'}"
    yield ""
    yield "Go on from here:"
    # `make demo` has its command in an environment that need not be active.
    own = Path(sys.executable).with_name("tocsin")
    name = "tocsin" if shutil.which("tocsin") or not own.exists() else os.path.relpath(own)
    yield f"  {name} rules list {out / 'rules'} --limit 5"
    yield f"  {name} rules diff {out / 'rules'} 2 3"
    if event:
        explain = f"{name} explain --rules {out / 'rules'} {fences.ALARM}"
        yield f"  {explain} --event '{json.dumps(event)}'"
        yield f"  {explain} --event '{json.dumps(event)}' --version 2"
    yield f"  {name} match --rules {out / 'rules'} --events {out / 'events'} --out hits.parquet"


def _session(spark: Any, log: Path) -> Any:
    """Return a session whose JVM, if it starts now, talks to a file and not to the terminal.

    A JVM keeps the standard error it was started with, so ours is that file for a moment.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sys.stderr.flush()
    ours = os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            return spark.session("tocsin demo")
        except Exception as error:
            raise click.ClickException(f"Spark did not start; see {log}\n  {error}") from None
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def _check_needs() -> None:
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"the demo needs {', '.join(missing)}; install with: pip install 'tocsin[demo]'"
        )
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(f"{home}/bin/java" if home else "java"):
        raise click.ClickException(
            "Spark needs Java 17 or newer, and there is none on PATH or in JAVA_HOME; "
            "on Debian: apt-get install openjdk-17-jre-headless"
        )


def _prepare(out: Path) -> None:
    """Make the folder, or empty it of what an earlier demo made; refuse anyone else's."""
    marker = out / _MARKER
    if out.is_dir() and any(out.iterdir()) and not marker.exists():
        raise click.ClickException(
            f"{out} is not empty and no demo made it; name another folder with --out"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        marker.write_text("`tocsin demo` made this folder and replaces it when it runs again.\n")
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error}") from None
    for name in _MADE:
        entry = out / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            with contextlib.suppress(FileNotFoundError):
                entry.unlink()
