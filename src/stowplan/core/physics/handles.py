"""How compiled code reaches many tables: one small array of addresses instead of two dozen arrays.

A compiled function that takes an array unpacks seven numbers, and numba compiles every function with all it
calls: handing two dozen tables from function to function took a minute to compile. A handle is one array:
address, length and width of each table. A view made of it owns nothing and costs nothing. Whoever makes a
handle keeps the arrays alive and makes a new one when an array is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["Handle", "handle_of", "pointer"]

Handle: TypeAlias = NDArray[np.int64]
"""(3 · tables,) address, length and width of each table, in their order."""


def handle_of(tables: Iterable[NDArray[Any]]) -> Handle:
    """Make the handle of `tables`, of one or two dimensions; it is good for as long as these arrays live."""
    numbers: list[int] = []
    for table in tables:
        width = table.shape[1] if table.ndim == 2 else 1
        numbers += [table.ctypes.data, table.shape[0], width]
    return np.array(numbers, np.int64)


@intrinsic
def pointer(_context: Any, address: Any) -> Any:  # noqa: ANN401 (numba's insides have no types)
    """Take a number for an address."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate
