"""The output of the demo.

On a terminal it is a live panel, redrawn after each micro-batch. Otherwise it is a few plain lines
of a fixed width, without colours and control characters.
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
    """Shows a run: steps, micro-batches, the change and the summary."""

    def __init__(self, console: Console, events: int, rules: list[fences.Fence]):
        self.console = console
        self.events = events
        self.descriptions = {f.id: f.description for f in rules}
        self.batches: list[Batch] = []
        self.change: Change | None = None
        self.counts: Counter[str] = Counter()
        self.alarms: list[int] = []
        self._live: Live | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a step while it runs, and then how long it took."""
        start = time.perf_counter()
        if self.console.is_terminal:
            with self.console.status(f"{name} ..."):
                yield
        else:
            yield
        self.line(f"{name}: {time.perf_counter() - start:.1f} s")

    def line(self, text: str) -> None:
        """Print a line without markup."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the panel while the stream runs, if there is a terminal."""
        if not self.console.is_terminal:
            yield
            return
        with Live(self._panel(), console=self.console, refresh_per_second=8) as self._live:
            yield

    def show(self, report: Batch | Change) -> None:
        """Record and show a micro-batch or the change."""
        if isinstance(report, Change):
            self.change = report
            description = fences.alarm_after().description
            self.descriptions[fences.ALARM] = f"first speeding, then {description}"
            if self.console.is_terminal:
                self.console.bell()
            else:
                self.line(self._describe_change(report).strip())
        else:
            self.batches.append(report)
            for entry in pc.value_counts(report.matches["rule"]).to_pylist():
                self.counts[entry["values"]] += entry["counts"]
            alarms = pc.sum(pc.equal(report.matches["rule"], fences.ALARM)).as_py() or 0
            self.alarms.append(alarms)
            if not self.console.is_terminal and len(self.batches) % 5 == 0:
                done = sum(b.events for b in self.batches)
                self.line(
                    f"  {done:,} of {self.events:,} events, {self._count_matches():,} matches"
                )
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
            Text(f"{self._count_matches():,} matches", style="green"),
            Text(f"rules version {version}", style="bold red" if self.change else "bold"),
        )
        top = max([*self.alarms, 1])
        bars = "".join(_BARS[round(n / top * 7)] for n in self.alarms)
        middle = self.change.after if self.change else len(bars)
        alarm = Text.assemble(
            (f"{fences.ALARM} ", "bold"), (bars[:middle], "yellow"), (bars[middle:], "bold red"),
            f" {sum(self.alarms):,} matches: {self.descriptions[fences.ALARM]}",
        )  # fmt: skip
        news = Text()
        if self.change:
            news = Text(self._describe_change(self.change), style="bold white on red")
        colour = "red" if self.change else "blue"
        body = Group(head, Text(), alarm, news, Text(), self._busiest_rules(7))
        return Panel(body, title="tocsin demo", border_style=colour, padding=(1, 2))

    def _describe_change(self, change: Change) -> str:
        return (
            f" 8:00: fire at the gasworks. {fences.ALARM} is replaced while the stream runs: "
            f"version {change.version}, {change.seconds * 1000:.0f} ms "
        )

    def _count_matches(self) -> int:
        return sum(len(b.matches) for b in self.batches)

    # ------------------------------------------------------------ summary

    def _busiest_rules(self, n: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, title="The busiest rules", title_justify="left")
        table.add_column("rule", no_wrap=True, min_width=24)
        table.add_column("description", no_wrap=True, min_width=44)
        table.add_column("matches", justify="right", min_width=8)
        for id_, count in self.counts.most_common(n):
            style = "bold red" if id_ == fences.ALARM and self.change else None
            table.add_row(id_, self.descriptions[id_], f"{count:,}", style=style)
        return table

    def _change_table(self) -> Table:
        assert self.change is not None
        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"The change: matches of {fences.ALARM} by micro-batch",
            title_justify="left",
        )
        for name in ("micro-batch", "events", "rules_version", "matches"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("the rule at that time", no_wrap=True)
        middle = self.change.after
        for number in range(max(0, middle - 3), min(len(self.batches), middle + 3)):
            batch = self.batches[number]
            # The versions that the sink wrote, not the expected ones.
            versions = pc.unique(batch.matches["rules_version"]).to_pylist()
            is_after = batch.version >= self.change.version
            rule = fences.alarm_after() if is_after else fences.alarm_before()
            table.add_row(
                str(number), f"{batch.events:,}", ", ".join(map(str, versions)),
                f"{self.alarms[number]:,}", rule.description,
                style="bold red" if is_after and self.console.is_terminal else None,
            )  # fmt: skip
        return table

    def print_summary(self, verdict: Verdict) -> None:
        """Print the tables, the speed and the result of the check."""
        assert self.change is not None
        early = sum(n for b, n in zip(self.batches, self.alarms) if b.version < self.change.version)
        self.console.print()
        self.console.print(self._change_table())
        self.line(f"  in total {early:,} matches before, {sum(self.alarms) - early:,} after")
        self.console.print()
        self.console.print(self._busiest_rules(10))
        first, rest = self.batches[0], self.batches[1:]
        steady = sum(b.events for b in rest) / sum(b.seconds for b in rest)
        median = sorted(b.seconds for b in rest)[len(rest) // 2]
        matched = len(self.counts)
        self.line(
            f"{self.events:,} events, {self._count_matches():,} matches, {matched:,} rules matched"
        )
        self.line(
            f"warm-up: the first micro-batch took {first.seconds:.1f} s "
            "(Spark compiles its plan and starts Python workers)"
        )
        self.line(
            f"then: {steady:,.0f} events/s, {len(rest)} micro-batches of {median:.2f} s (median)"
        )
        # Measured with this demo on a busy machine: 0.6 to 0.8 s for a micro-batch of 100 events,
        # 0.4 to 1.1 s for one of 15,000 events.
        self.line("      (small micro-batches are mostly Spark's overhead: try --events 2000000)")
        if verdict.is_equal:
            self.line(
                f"checked: {verdict.matches:,} matches are equal to those without Spark "
                f"({verdict.seconds:.1f} s)"
            )


def open_console() -> Console:
    """Return a console for stdout: as wide as the terminal, or plain."""
    console = Console()
    if console.is_terminal:
        return console
    return Console(width=_PLAIN_WIDTH, color_system=None, highlight=False)
