"""`compiled`: numba's `njit` with an on-disk cache that notices when a *called* function changed.

numba stamps a cached function with the age and size of its own file only. A compiled caller has its callees
inlined, so after an update that touches only the callee's file the caller would go on running the old physics
without a word. Here the stamp covers every module of the function's package and of this one. Floating-point
arithmetic keeps its order (no fast-math), so that the same inputs give the same bytes on every machine with
the same instruction set.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from functools import cache, reduce
from typing import Any, ParamSpec, TypeVar

from numba import njit

__all__ = ["compiled", "inner", "source_stamp"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


@cache
def source_stamp(package: str) -> tuple[tuple[str, float, int], ...]:
    """List name, modification time and size of each module of `package`, sorted by name.

    Empty when the modules are not files (a zip archive): numba then falls back to its own stamp.
    """
    stamps: list[tuple[str, float, int]] = []
    for module in pkgutil.iter_modules(sys.modules[package].__path__):
        spec = importlib.util.find_spec(f"{package}.{module.name}")
        path_stats: Callable[[str], dict[str, Any]] | None = getattr(spec and spec.loader, "path_stats", None)
        if spec is None or spec.origin is None or path_stats is None:
            continue
        stats = path_stats(spec.origin)
        stamps.append((module.name, float(stats["mtime"]), int(stats["size"])))
    return tuple(sorted(stamps))


def inner(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` for calls from compiled code only: no entry from Python, so quicker to build."""
    return njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def _attribute(holder: Any, name: str) -> Any:  # noqa: ANN401 (numba's insides have no types)
    """Read an attribute that no stub declares."""
    return getattr(holder, name)


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` on first call; keep the machine code on disk until a module it may call changes."""
    dispatcher = njit(cache=True, error_model="numpy")(function)
    packages = sorted({__package__ or "", function.__module__.rpartition(".")[0]})
    # numba has no public name for the stamp; test_compile.py fails if this one stops working.
    stamped: dict[str, Any] = reduce(_attribute, ("_cache", "_cache_file", "__dict__"), dispatcher)
    stamped["_source_stamp"] = (stamped["_source_stamp"], *(source_stamp(name) for name in packages))
    return dispatcher
