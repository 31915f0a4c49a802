"""What a plan would come to: decoded onto the live state, looked at, and undone to the last bit.

The state is not copied: everything that is compiled against it (constraints, scores) would have to be
compiled anew for the copy, which costs far more than the placements and their undoing. Whoever follows the
state's journal reads both, and ends where it was. Whoever taps the state's events is told of neither: nothing
has happened.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from stowplan.core.decoder.greedy import Decoded, GreedyDecoder
from stowplan.core.decoder.promises import promise_again, promises
from stowplan.core.domain import (
    ClusterState,
    PersistentVolume,
    PersistentVolumeClaim,
    PodRemoved,
    StorageSet,
)
from stowplan.core.policy.interface import CycleView, Plan
from stowplan.errors import InternalError

__all__ = ["decoded"]

_Reserved = PersistentVolume | PersistentVolumeClaim


@contextmanager
def decoded(view: CycleView, plan: Plan, name: str) -> Generator[Decoded]:
    """Give what `plan` would place; for the block, the placements stand in the state of `view`.

    Raises:
        InternalError: the view comes from no engine.
    """
    if view.filters_of is None:
        raise InternalError("what a plan would come to is asked of a view without constraints")
    state = view.state
    tap, state.tap = state.tap, None
    promised = promises(state)
    reserved: list[tuple[str, _Reserved]] = []

    def reserve(key: str, items: Sequence[_Reserved]) -> None:
        for item in items:
            reserved.append((key, _current(state, item)))
            state.apply(StorageSet(item))

    def release(key: str) -> None:
        for owner, item in reversed(reserved):
            if owner == key:
                state.apply(StorageSet(item))
        reserved[:] = [each for each in reserved if each[0] != key]

    decoder = GreedyDecoder(
        state, view.filters_of, reserve, release, explains=False, spread_factor=view.spread_factor
    )
    try:
        result = decoder.decode(view, plan, name, limit=view.limit, closed=view.closed)
        try:
            yield result
        finally:
            for task, _ in reversed(result.placed):
                state.apply(PodRemoved(task.key))
            for _, item in reversed(reserved):
                state.apply(StorageSet(item))
            promise_again(state, promised)
    finally:
        state.tap = tap


def _current(state: ClusterState, item: _Reserved) -> _Reserved:
    storage = state.storage
    if isinstance(item, PersistentVolume):
        return storage.volumes[item.name]
    return storage.claims[item.namespace, item.name]
