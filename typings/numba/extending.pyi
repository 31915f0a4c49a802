"""Types for numba's extension decorators, of which Stowplan uses one."""

from collections.abc import Callable
from typing import Any

def intrinsic(function: Callable[..., Any], /) -> Callable[..., Any]: ...
