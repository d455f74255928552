"""What the steps of joins cost on a machine, as `tocsin calibrate` measures it.

Costs are fitted to measured joins by least squares, and are kept in the user's cache. Before that,
those of `costs.json` are used, which the same command wrote.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from tocsin import jit
from tocsin.errors import SimilarityError

FORMAT = 1
FILE = "similarity-costs.json"


def saved_file() -> Path:
    """Return where `tocsin calibrate` keeps the costs of this machine."""
    return jit.cache_directories()[0].parent / FILE


def save(costs: dict[str, Any], path: Path) -> None:
    """Write costs to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another process may read the costs meanwhile: it finds the old ones or the new ones.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps({"format": FORMAT, **costs}, indent=1) + "\n")
    unfinished.replace(path)
    load.cache_clear()


@functools.cache
def load() -> dict[str, Any]:
    """Return the costs of this machine, or those of another if it was not calibrated."""
    path = saved_file()
    for each in (path, Path(__file__).with_name("costs.json")):
        if not each.exists():
            continue
        try:
            costs: dict[str, Any] = json.loads(each.read_text())
            is_current = costs.get("format") == FORMAT
        except (ValueError, AttributeError):
            raise SimilarityError(
                f"{each} is damaged; delete it, or run `tocsin calibrate` again"
            ) from None
        if is_current:
            return costs
    raise SimilarityError("there are no costs of joins; run `tocsin calibrate`")
