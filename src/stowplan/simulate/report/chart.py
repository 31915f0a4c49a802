"""A chart as a value: a Plotly figure, the words beside it, and how both get into a page.

Figures are plain dictionaries. Arrays travel as base64 typed arrays (Plotly's own `bdata` form), which is
about half the size of decimal text. Colours are names of CSS variables (`--series-0` …): the page resolves
them when it draws, so one figure serves light and dark mode.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["SERIES_COLOURS", "SERIES_DASHES", "Chart", "Figure", "encode_json", "series_colour", "time_unit"]

Figure = dict[str, Any]

SERIES_COLOURS: Final = 9
SERIES_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

_DTYPES: Final = {"float32": "f4", "float64": "f8", "int32": "i4", "int16": "i2", "int8": "i1", "uint8": "u1"}


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing: `figure` has `data` and `layout`; `words` say what is seen to whoever does not see it."""

    figure: Figure
    words: str
    note: str = ""
    """What a reader must know to judge the drawing: one run only, aggregated, what was left out."""


def series_colour(index: int) -> str:
    """Return the CSS variable of the `index`-th series; colours repeat after nine."""
    return f"--series-{index % SERIES_COLOURS}"


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return (seconds per unit, name) of the largest unit in which `longest_s` is at least 2."""
    for seconds, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if longest_s >= 2.0 * seconds:
            return seconds, name
    return 1.0, "seconds"


def encode_json(value: object) -> str:
    """Return `value` as JSON that may stand inside a `<script>` element: no `</` can end it early."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plain(value: Any) -> Any:  # noqa: ANN401 (JSON, NumPy's numbers and arrays)
    match value:
        case np.ndarray():
            return _typed_array(cast("NDArray[Any]", value))
        case np.generic():
            return _plain(cast("np.generic", value).item())
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Mapping():
            return {str(key): _plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case Sequence():
            return [_plain(item) for item in cast("Sequence[Any]", value)]
        case _:
            raise TypeError(f"a figure holds a {type(value).__name__}; use numbers, text, lists or arrays")


def _typed_array(array: NDArray[Any]) -> object:
    if array.dtype.kind not in "fiub" or array.ndim > 2:
        return [_plain(item) for item in array.tolist()]
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind in "iu" and array.dtype.name not in _DTYPES:
        array = (
            array.astype(np.int32)
            if array.size == 0 or abs(array).max() < 2**31
            else array.astype(np.float64)
        )
    contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    encoded: dict[str, object] = {
        "dtype": _DTYPES[array.dtype.name],
        "bdata": base64.b64encode(contiguous.tobytes()).decode("ascii"),
    }
    if array.ndim == 2:
        encoded["shape"] = f"{array.shape[0]},{array.shape[1]}"
    return encoded
