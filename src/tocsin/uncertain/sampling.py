"""Drawing values of uncertain readings at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.jit import Float64Out, Float64s, kernel
from tocsin.uncertain.densities import NORMAL, POINT, UNIFORM, Densities, standardise
from tocsin.uncertain.normal import share_above


def draw(d: Densities, n: int, seed: Any) -> np.ndarray:
    """Return n values of each density, float64[n, densities]."""
    shares = np.random.default_rng(seed).random(n * len(d.low))
    write_quantiles(d, shares, shares)
    return shares.reshape(n, len(d.low))


@kernel
def write_quantiles(d: Densities, share: Float64s, out: Float64Out) -> None:
    """Write the value of each density with this probability below; densities take turns."""
    n = d.low.shape[0]
    for at in range(share.shape[0]):
        i = at % n
        low, high, u = d.low[i], d.high[i], share[at]
        if d.family[i] == POINT:
            out[at] = low
        elif d.family[i] == UNIFORM:
            out[at] = low * (1 - u) + high * u
        elif d.family[i] == NORMAL:
            a, b = standardise(d, i, low), standardise(d, i, high)
            width = (high - low) / d.deviation[i]
            bottom, top = 0.0, width  # above the low end, as a tail may be narrow
            while True:
                past = 0.5 * (bottom + top)
                if not bottom < past < top:
                    break
                if 1 - share_above(a, b, width, a + past, past, width - past) < u:
                    bottom = past
                else:
                    top = past
            out[at] = min(max(low + past * d.deviation[i], low), high)
        else:
            begin, end = d.first[i], d.first[i + 1] - 1
            while end - begin > 1:
                half = (begin + end) >> 1
                if d.below[half] <= u:
                    begin = half
                else:
                    end = half
            part = (u - d.below[begin]) / (d.below[begin + 1] - d.below[begin])
            out[at] = d.edge[begin] * (1 - part) + d.edge[begin + 1] * part
