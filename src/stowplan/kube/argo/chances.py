"""What can become of a task, provided that all before it goes well, and what its chance of running is then.

The ways in which a task may end are what `depends` of later tasks is evaluated on, so that a clean-up task
that only waits for a failure is not taken for part of the normal course.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.kube.argo.depends import Depends, Result, Results
from stowplan.kube.argo.fanout import Fanout
from stowplan.kube.argo.graph import Chance

__all__ = ["Ways", "chance_of", "ways_of"]

Ways = tuple[Results, ...]
"""The ways in which a task may end, each the results that hold then."""

_RAN: Final = frozenset({Result.SUCCEEDED})
_ALL_RAN: Final = frozenset({Result.SUCCEEDED, Result.ANY_SUCCEEDED})
_IS_UP: Final = frozenset({Result.DAEMONED})
_SKIPPED: Final = frozenset({Result.SKIPPED})
_OMITTED: Final = frozenset({Result.OMITTED})
_NONE_RAN: Final = frozenset({Result.SUCCEEDED})  # a group whose items were all skipped has succeeded


def ways_of(
    depends: Depends | None,
    before: Mapping[str, Ways],
    when: bool | None,  # noqa: FBT001  (three values: true, false, not decided)
    fanout: Fanout | None,
    *,
    is_daemon: bool,
) -> Ways:
    """Return the ways in which a task may end.

    `before` holds the ways of the tasks that `depends` names, `when` the decided condition.
    """
    outcomes = depends.outcomes(before) if depends is not None else frozenset({True})
    ways: list[Results] = []
    if True in outcomes:
        if fanout is None or fanout.width != 0:
            if when is not False:
                ways.append(_ALL_RAN if fanout is not None else _IS_UP if is_daemon else _RAN)
            if when is not True:
                ways.append(_NONE_RAN if fanout is not None else _SKIPPED)
        if fanout is not None and (fanout.width is None or fanout.width == 0):
            ways.append(_SKIPPED)
    if False in outcomes:
        ways.append(_OMITTED)
    return tuple(ways)


def chance_of(ways: Ways, *, is_group: bool) -> Chance:
    """Return the chance of a task that may end in these ways; `is_group` tells of a fan-out."""
    ran = frozenset({Result.ANY_SUCCEEDED if is_group else Result.SUCCEEDED, Result.DAEMONED})
    runs = [not way.isdisjoint(ran) for way in ways]
    if all(runs):
        return Chance.CERTAIN
    if any(runs):
        return Chance.CONDITIONAL
    return Chance.ON_FAILURE if _OMITTED in ways else Chance.NEVER
