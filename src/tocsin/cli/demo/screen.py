"""What the demo shows while it runs and when it is done.

On a terminal: a live panel, redrawn after each micro-batch. Elsewhere: a few plain lines,
no colours, no control characters, always the same width.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.compute as pc
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tocsin.cli.demo import fences
from tocsin.cli.demo.stream import Batch, Change, Verdict

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_WIDTH = 96


class Screen:
    """Tells the story of a run: steps, micro-batches, the change, the summary."""

    def __init__(self, console: Console, events: int, rules: list[fences.Fence]):
        self.console = console
        self.events = events
        self.says = {f.id: f.says for f in rules}
        self.batches: list[Batch] = []
        self.change: Change | None = None
        self.counts: Counter[str] = Counter()
        self.alarms: list[int] = []
        self._live: Live | None = None

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """Say what is being done, and how long it took."""
        began = time.perf_counter()
        if self.console.is_terminal:
            with self.console.status(f"{words} ..."):
                yield
        else:
            yield
        self.line(f"{words}: {time.perf_counter() - began:.1f} s")

    def line(self, words: str) -> None:
        """Print a line as it is."""
        self.console.print(words, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the panel while the stream runs, where there is a terminal to show it on."""
        if not self.console.is_terminal:
            yield
            return
        with Live(self._panel(), console=self.console, refresh_per_second=8) as self._live:
            yield

    def show(self, moment: Batch | Change) -> None:
        """Take in what happened and show it."""
        if isinstance(moment, Change):
            self.change = moment
            self.says[fences.ALARM] = f"first speeding, then {fences.after().says}"
            if self.console.is_terminal:
                self.console.bell()
            else:
                self.line(self._news(moment).strip())
        else:
            self.batches.append(moment)
            for entry in pc.value_counts(moment.matches["rule"]).to_pylist():
                self.counts[entry["values"]] += entry["counts"]
            alarms = pc.sum(pc.equal(moment.matches["rule"], fences.ALARM)).as_py() or 0
            self.alarms.append(alarms)
            if not self.console.is_terminal and len(self.batches) % 5 == 0:
                done = sum(b.events for b in self.batches)
                self.line(f"  {done:,} of {self.events:,} events, {self._matches():,} matches")
        if self._live:
            self._live.update(self._panel())

    # ------------------------------------------------------------ live

    def _panel(self) -> RenderableType:
        done = sum(b.events for b in self.batches)
        head = Table.grid(expand=True, padding=(0, 2))
        head.add_column(ratio=1)
        for _ in range(4):
            head.add_column(justify="right", no_wrap=True)
        last = self.batches[-1] if self.batches else None
        rate = f"{last.events / last.seconds:,.0f} events/s" if last else "warming up"
        version = self.change.version if self.change else (last.version if last else "-")
        head.add_row(
            ProgressBar(total=self.events, completed=done),
            f"{done:,} / {self.events:,} events",
            Text(rate, style="cyan"),
            Text(f"{self._matches():,} matches", style="green"),
            Text(f"rules version {version}", style="bold red" if self.change else "bold"),
        )
        top = max([*self.alarms, 1])
        bars = "".join(_BARS[round(n / top * 7)] for n in self.alarms)
        half = self.change.after if self.change else len(bars)
        alarm = Text.assemble(
            (f"{fences.ALARM} ", "bold"), (bars[:half], "yellow"), (bars[half:], "bold red"),
            f" {sum(self.alarms):,} hits: {self.says[fences.ALARM]}",
        )  # fmt: skip
        news = Text(self._news(self.change), style="bold white on red") if self.change else Text()
        colour = "red" if self.change else "blue"
        body = Group(head, Text(), alarm, news, Text(), self._busiest(7))
        return Panel(body, title="tocsin demo", border_style=colour, padding=(1, 2))

    def _news(self, change: Change) -> str:
        return (
            f" 8:00, the gasworks burn. {fences.ALARM} is replaced as the stream runs: "
            f"version {change.version}, {change.seconds * 1000:.0f} ms "
        )

    def _matches(self) -> int:
        return sum(len(b.matches) for b in self.batches)

    # ------------------------------------------------------------ summary

    def _busiest(self, n: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, title="The busiest rules", title_justify="left")
        table.add_column("rule", no_wrap=True, min_width=24)
        table.add_column("says", no_wrap=True, min_width=44)
        table.add_column("hits", justify="right", min_width=8)
        for id_, hits in self.counts.most_common(n):
            style = "bold red" if id_ == fences.ALARM and self.change else None
            table.add_row(id_, self.says[id_], f"{hits:,}", style=style)
        return table

    def _effect(self) -> Table:
        assert self.change is not None
        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"The change: hits of {fences.ALARM} by micro-batch",
            title_justify="left",
        )
        for name in ("micro-batch", "events", "rules_version", "hits"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("the rule then said", no_wrap=True)
        said = {False: fences.before().says, True: fences.after().says}
        middle = self.change.after
        for number in range(max(0, middle - 3), min(len(self.batches), middle + 3)):
            batch, hits = self.batches[number], self.alarms[number]
            # The column as the sink wrote it, not what we meant to happen.
            seen = pc.unique(batch.matches["rules_version"]).to_pylist()
            later = batch.version >= self.change.version
            table.add_row(
                str(number), f"{batch.events:,}", ", ".join(map(str, seen)), f"{hits:,}",
                said[later], style="bold red" if later and self.console.is_terminal else None,
            )  # fmt: skip
        return table

    def summary(self, verdict: Verdict) -> None:
        """Print the tables, the speed and the check."""
        assert self.change is not None
        early = sum(h for b, h in zip(self.batches, self.alarms) if b.version < self.change.version)
        self.console.print()
        self.console.print(self._effect())
        self.line(f"  in all {early:,} hits before, {sum(self.alarms) - early:,} after")
        self.console.print()
        self.console.print(self._busiest(10))
        first, rest = self.batches[0], self.batches[1:]
        steady = sum(b.events for b in rest) / sum(b.seconds for b in rest)
        median = sorted(b.seconds for b in rest)[len(rest) // 2]
        rang = len(self.counts)
        self.line(f"{self.events:,} events, {self._matches():,} matches, {rang:,} rules rang")
        self.line(
            f"warm-up: the first micro-batch took {first.seconds:.1f} s "
            "(Spark compiles its plan, Python workers start)"
        )
        self.line(
            f"then: {steady:,.0f} events/s, {len(rest)} micro-batches of {median:.2f} s (median)"
        )
        # Medians on a busy machine: 0.6 to 0.8 s for 100 events, 0.4 to 1.1 s for 15,000.
        self.line("      (a small micro-batch is mostly Spark's own work: try --events 2000000)")
        if verdict.equal:
            self.line(
                f"checked: {verdict.matches:,} matches equal, recomputed without Spark in "
                f"{verdict.seconds:.1f} s"
            )


def console() -> Console:
    """Return a console for standard output: as wide as the terminal, or plain."""
    made = Console()
    if made.is_terminal:
        return made
    return Console(width=_PLAIN_WIDTH, color_system=None, highlight=False)
