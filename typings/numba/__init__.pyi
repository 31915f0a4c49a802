"""Types for the few names of numba that Stowplan uses: numba ships none for its decorators."""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from . import types as types

_P = ParamSpec("_P")
_R = TypeVar("_R")

class Dispatcher(Generic[_P, _R]):
    """A compiled function: called like the one it was made from, which stays reachable as `py_func`."""

    py_func: Callable[_P, _R]
    signatures: list[tuple[Any, ...]]
    nopython_signatures: list[Any]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

@overload
def njit(signature_or_function: Callable[_P, _R], /) -> Dispatcher[_P, _R]: ...
@overload
def njit(
    signature: object = ...,
    /,
    *,
    cache: bool = ...,
    nogil: bool = ...,
    fastmath: bool | set[str] = ...,
    parallel: bool = ...,
    boundscheck: bool | None = ...,
    inline: str = ...,
    error_model: str = ...,
    no_cpython_wrapper: bool = ...,
    no_cfunc_wrapper: bool = ...,
    locals: dict[str, object] = ...,
) -> Callable[[Callable[_P, _R]], Dispatcher[_P, _R]]: ...

prange = range

def set_num_threads(n: int) -> None: ...
def get_num_threads() -> int: ...

class Type:
    def __getitem__(self, item: object) -> Type: ...
    def __call__(self, *args: object) -> Type: ...

boolean: Type
uint8: Type
int8: Type
int32: Type
int64: Type
float32: Type
float64: Type
void: Type
