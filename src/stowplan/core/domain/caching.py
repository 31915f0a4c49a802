"""How many pod shapes are worth keeping compiled: a cluster sees new ones all day, and each costs every node.

A workflow's pods carry its name in their labels, so every run brings shapes that are never seen again. Caches
by shape keep those used last.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeVar

__all__ = ["forget_oldest", "shapes_worth_keeping"]

_ROWS: Final = 1 << 19  # of all shapes together; some 25 bytes each in either cache
_MOST: Final = 512
_FEWEST: Final = 128

K = TypeVar("K", bound=Hashable)


def shapes_worth_keeping(capacity: int) -> int:
    """Return how many shapes to keep for a state with so many rows."""
    return min(max(_ROWS // max(capacity, 1), _FEWEST), _MOST)


def forget_oldest(table: dict[K, Any], most: int) -> None:
    """Remove the first entries until `most` are left; whoever uses an entry puts it last again."""
    while len(table) > most:
        del table[next(iter(table))]
