"""What a cycle decided, as plain data: tasks by their place among the pending ones, refusals once each."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.decoder import Infeasible, Wait
from stowplan.core.domain import PendingTask
from stowplan.core.engine import CycleReport
from stowplan.core.record.frames import from_runs, to_runs
from stowplan.core.record.values import Plain, to_plain

__all__ = ["first_difference", "outcome_to_plain"]


def outcome_to_plain(report: CycleReport, pending: Sequence[PendingTask]) -> Plain:
    """Return the outcomes of a cycle over `pending`."""
    place_of = {task.key: place for place, task in enumerate(pending)}
    return {
        "placed": [[place_of[task.key], to_plain(placed)] for task, placed in report.placed],
        "waiting": _refusals(report.waiting, place_of),
        "infeasible": _refusals(report.infeasible, place_of),
        "deferred": to_runs([place_of[task.key] for task in report.deferred]),
        "degraded": to_plain(report.degraded),
    }


def _refusals(refused: Sequence[tuple[PendingTask, Wait | Infeasible]], place_of: dict[str, int]) -> Plain:
    places_of: dict[int, tuple[Wait | Infeasible, list[int]]] = {}
    for task, why in refused:  # tasks of one shape share the object
        places_of.setdefault(id(why), (why, []))[1].append(place_of[task.key])
    return [[why.reason, dict(why.refused), to_runs(places)] for why, places in places_of.values()]


def first_difference(recorded: Plain, replayed: Plain, pending: Sequence[PendingTask]) -> str:
    """Say where two outcomes differ first, in words; empty: nowhere."""
    if recorded == replayed:
        return ""
    for name in ("degraded", "placed", "waiting", "infeasible", "deferred"):
        if recorded[name] == replayed[name]:
            continue
        if name == "placed":
            return _of_placements(recorded[name], replayed[name], pending)
        if name in ("waiting", "infeasible"):
            then, now = _by_key(recorded[name], pending), _by_key(replayed[name], pending)
            for key in [*then, *(key for key in now if key not in then)]:
                if then.get(key) != now.get(key):
                    return f"{key}: {name}: {_or_not(then.get(key))} then, {_or_not(now.get(key))} now"
        return f"{name}: {recorded[name]} then, {replayed[name]} now"
    return f"the cycle: {recorded} then, {replayed} now"


def _of_placements(then: Plain, now: Plain, pending: Sequence[PendingTask]) -> str:
    for (place, old), (other_place, new) in zip(then, now, strict=False):
        key = pending[int(place)].key
        if place != other_place:
            return f"{key} then where {pending[int(other_place)].key} is placed now"
        for name in ("node_name", "gpus", "row", "expected_duration_s", "storage"):
            if old.get(name) != new.get(name):
                return f"{key}: {name}: {old.get(name)} then, {new.get(name)} now"
        before: dict[str, Plain] = old.get("explanation") or {}
        after: dict[str, Plain] = new.get("explanation") or {}
        for name in [*before, *(name for name in after if name not in before)]:
            if before.get(name) != after.get(name):
                return f"{key}: explanation: {name}: {before.get(name)} then, {after.get(name)} now"
    longer, when = (then, "then") if len(then) > len(now) else (now, "now")
    extra = longer[min(len(then), len(now))]
    return f"{pending[int(extra[0])].key} is placed only {when}, on {extra[1]['node_name']}"


def _by_key(refusals: Plain, pending: Sequence[PendingTask]) -> dict[str, str]:
    return {
        pending[place].key: f"{reason} {refused}" if refused else reason
        for reason, refused, runs in refusals
        for place in from_runs(runs)
    }


def _or_not(what: str | None) -> str:
    return "not" if what is None else repr(what)
