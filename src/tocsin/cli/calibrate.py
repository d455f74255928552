"""`tocsin calibrate`: measure what joins cost on this machine."""

from __future__ import annotations

from typing import Any

import click


@click.command(short_help="Measure what similarity joins cost on this machine.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write the costs to this file instead."
)
def calibrate(out: str | None) -> None:
    """Measure what similarity joins cost on this machine, which takes a minute.

    The method of a join and the estimates of tocsin.similarity.estimate follow from it. Leave the
    machine alone meanwhile.
    """
    from pathlib import Path

    from tocsin.similarity import unit_costs
    from tocsin.similarity.calibration import calibrate as measure

    costs: dict[str, Any] = {}
    for name, measured in measure():
        costs = measured
        click.echo(f"measured {name}", err=True)
    path = Path(out) if out else unit_costs.saved_file()
    unit_costs.save(costs, path)
    click.echo(f"wrote {path}")
