"""Takes the pods of many nodes in turns: the first of every node, then the second of every node, and so on.

What is decided about a pod depends on those before it on its node and on no other node, so that each turn is
one array operation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["groups", "turns"]


def turns(places: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Yield the positions in `places` of the first of each place, of the second of each, and so on.

    Args:
        places: those of one place together, shape (n,).
    """
    begins = _begins(places)
    lengths = np.diff(begins, append=len(places))
    for turn in range(int(lengths.max(initial=0))):
        yield begins[lengths > turn] + turn


def groups(places: NDArray[np.intp]) -> Iterator[tuple[int, int, int]]:
    """Yield each place with the positions of its first and behind its last; `places` as for `turns`."""
    begins = _begins(places)
    ends = np.append(begins, len(places))[1:]
    return zip(places[begins].tolist(), begins.tolist(), ends.tolist(), strict=True)


def _begins(places: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(places, prepend=-1))
