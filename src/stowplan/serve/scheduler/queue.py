"""The pods that wait, each in exactly one state, and what moves them. No clock, no I/O: times are arguments.

    active         worth a look in the next cycle
    backoff        its placement failed (not: found no node); 1 s, doubled with each failure, to 10 s
    unschedulable  found no node; active again when something happens that can help, or after 5 minutes
    gated          a scheduling gate holds it: no attempts
    in flight      placed and being bound, or a preemption is sought for it

A pod that found no node does not back off, unlike in kube-scheduler: the policy decides who gets room that
became free, and must see all who could use it. What back-off saves there, needless looks, is saved here by
cycles that look at all waiting pods together, by the pauses between cycles, and by asking for each shape
first whether there is room for it now (`admit`): thousands that still fit nowhere cost one question.

What happens while a pod is in flight is not lost to it: if it then turns out to have found no node, it goes
back to active, not to unschedulable.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go, 1.37.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final

from stowplan.core.decoder import CLOSED
from stowplan.core.domain import PodShape
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.hints import POLICY, Happening, that_help

__all__ = ["Place", "QueuedPod", "SchedulingQueue"]


_Group = tuple[frozenset[str], PodShape]
"""What refused pods, and their shape."""

_NOWHERE: Final[_Group] = (frozenset[str](), PodShape())
_NO_FILTERS: Final = frozenset({POLICY, CLOSED})  # those need not be asked whether there is room


class Place(StrEnum):
    """The state of a waiting pod."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One waiting pod; the queue alone changes it.

    Attributes:
        pod: as it was last seen.
        ready_s: since when it could be placed, monotonic; arrival order is by this, then by key.
        place: its state.
        attempts: how often it was decided on.
        failures: how often a placement of it failed.
        until_s: when it leaves backoff or unschedulable by itself.
        refused_by: the filters that kept it off every node the last time.
        since: number of the last event before it went in flight.
        group: what refused it and its shape, while it is unschedulable.
    """

    pod: LivePod
    ready_s: float
    place: Place
    attempts: int = 0
    failures: int = 0
    until_s: float = 0.0
    refused_by: frozenset[str] = frozenset()
    since: int = 0
    group: _Group = _NOWHERE

    @property
    def order(self) -> tuple[float, str]:
        """Its place among all waiting pods, by arrival: total, as keys are unique."""
        return self.ready_s, self.pod.key


def _ignore(place: Place, event: str) -> None:
    del place, event


def _is_gated(pod: LivePod) -> bool:
    return pod.is_gated


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimes:
    """Times of a queue, in seconds."""

    first_backoff_s: float = 1.0
    longest_backoff_s: float = 10.0
    flush_s: float = 300.0


@dataclass(slots=True)
class SchedulingQueue:
    """The waiting pods.

    Attributes:
        times: how long what lasts.
        is_gated: whether a pod is held by a gate that is not ours.
        on_move: told of each pod that enters a state, and of what brought it there.
    """

    times: QueueTimes = field(default_factory=QueueTimes)
    is_gated: Callable[[LivePod], bool] = _is_gated
    on_move: Callable[[Place, str], None] = _ignore
    _pods: dict[str, QueuedPod] = field(default_factory=dict[str, QueuedPod])
    _in: dict[Place, dict[str, QueuedPod]] = field(
        default_factory=lambda: {place: dict[str, QueuedPod]() for place in Place}
    )
    _refused: dict[_Group, dict[str, QueuedPod]] = field(default_factory=dict[_Group, dict[str, QueuedPod]])
    _stirred: dict[_Group, str] = field(default_factory=dict[_Group, str])  # by what
    _backoff: list[tuple[float, int, QueuedPod]] = field(default_factory=list[tuple[float, int, QueuedPod]])
    _numbers: count[int] = field(default_factory=count)
    _events: int = 0
    _last: dict[Happening, int] = field(default_factory=dict[Happening, int])

    # ---- reading ----

    def __len__(self) -> int:
        """Return the number of waiting pods, those in flight included."""
        return len(self._pods)

    def get(self, key: str) -> QueuedPod | None:
        """Return the waiting pod of that key."""
        return self._pods.get(key)

    def count(self, place: Place) -> int:
        """Return how many pods are in a state."""
        return len(self._in[place])

    def ready(self) -> list[QueuedPod]:
        """Return the active pods in order of arrival."""
        return sorted(self._in[Place.ACTIVE].values(), key=lambda entry: entry.order)

    def refusals(self) -> dict[str, int]:
        """Return how many unschedulable pods each filter has a part in keeping off every node."""
        counts: dict[str, int] = {}
        for (names, _), entries in self._refused.items():
            for name in names:
                counts[name] = counts.get(name, 0) + len(entries)
        return counts

    def next_due_s(self) -> float | None:
        """Return when `advance` will next have something to do by itself; None: never."""
        due = [self._backoff[0][0]] if self._backoff else []  # perhaps of a pod that has left: harmless
        oldest = next(iter(self._in[Place.UNSCHEDULABLE].values()), None)
        if oldest is not None:
            due.append(oldest.until_s)
        return min(due, default=None)

    # ---- what the watch says ----

    def set(self, pod: LivePod, now_s: float, ready_s: float | None = None) -> QueuedPod:
        """Take in a waiting pod as it is now.

        Args:
            pod: the pod; it waits.
            now_s: the time.
            ready_s: since when it could be placed, where it is new; None: since now.
        """
        entry = self._pods.get(pod.key)
        if entry is not None and entry.pod.uid != pod.uid:
            self.remove(pod.key)
            entry = None
        if entry is None:
            entry = QueuedPod(pod, now_s if ready_s is None else ready_s, Place.ACTIVE)
            self._pods[pod.key] = entry
            self._enter(entry, Place.GATED if self.is_gated(pod) else Place.ACTIVE, "PodAdd")
            return entry
        is_other = entry.pod.shape != pod.shape
        entry.pod = pod  # its group, if it has one, is by the shape that it was refused with
        if entry.place is Place.GATED:
            if not self.is_gated(pod):
                entry.ready_s = now_s
                self._move(entry, Place.ACTIVE, "PodUngated")
        elif is_other and entry.place is Place.UNSCHEDULABLE:
            self._move(entry, Place.ACTIVE, "PodUpdate")
        elif is_other and entry.place is Place.IN_FLIGHT:
            entry.since = -1  # what is found out about it is out of date
        return entry

    def remove(self, key: str) -> bool:
        """Forget a pod: it is bound, gone or not ours; tell whether it was there."""
        entry = self._pods.pop(key, None)
        if entry is None:
            return False
        self._leave(entry)
        return True

    def clear(self) -> None:
        """Forget all pods."""
        for key in list(self._pods):
            self.remove(key)
        self._backoff.clear()

    def wake(self, happened: Happening, event: str) -> bool:
        """Note what happened; tell whether it can help pods that found no node: then `admit` is due."""
        if not happened:
            return False
        self._events += 1
        for one in happened:
            self._last[one] = self._events
        helped = [group for group in self._refused if that_help(group[0]) & happened]
        for group in helped:
            self._stirred[group] = event
        return bool(helped)

    def admit(self, may_fit: Callable[[PodShape], bool]) -> int:
        """Make the pods active that something helped since the last time; return how many.

        Args:
            may_fit: whether there is a node for a shape now, or another way to one; pods of the others stay.
        """
        moved = 0
        stirred, self._stirred = self._stirred, {}
        for group, event in stirred.items():
            names, shape = group
            entries = self._refused.get(group)
            if entries and (not names.isdisjoint(_NO_FILTERS) or may_fit(shape)):
                moved += len(entries)
                for entry in list(entries.values()):
                    self._move(entry, Place.ACTIVE, event)
        return moved

    def advance(self, now_s: float) -> int:
        """Make active whose back-off is over, and who found no node long ago; return how many."""
        moved = 0
        while self._backoff and self._backoff[0][0] <= now_s:
            until_s, _, entry = heapq.heappop(self._backoff)
            if self._is_in(entry, Place.BACKOFF) and entry.until_s == until_s:
                self._move(entry, Place.ACTIVE, "BackoffComplete")
                moved += 1
        unschedulable = self._in[Place.UNSCHEDULABLE]
        while unschedulable:
            entry = next(iter(unschedulable.values()))  # the one that is there longest
            if entry.until_s > now_s:
                break
            self._move(entry, Place.ACTIVE, "UnschedulableTimeout")
            moved += 1
        return moved

    # ---- what the scheduler does ----

    def begin(self, entry: QueuedPod) -> None:
        """Put an active pod in flight; it was placed, or more is sought for it."""
        if self._is_in(entry, Place.ACTIVE):
            entry.since = self._events
            self._move(entry, Place.IN_FLIGHT, "")

    def placed(self, entry: QueuedPod) -> None:
        """Put an active pod in flight, with a node."""
        self.begin(entry)
        entry.attempts += 1

    def refuse(self, entry: QueuedPod, refused_by: Iterable[str], now_s: float) -> None:
        """Note that an active pod, or one in flight, found no node, and which filters kept it off."""
        if not (self._is_in(entry, Place.ACTIVE) or self._is_in(entry, Place.IN_FLIGHT)):
            return
        entry.attempts += 1
        entry.refused_by = frozenset(refused_by)
        if entry.place is Place.IN_FLIGHT and self._was_helped(entry):
            self._move(entry, Place.ACTIVE, "ScheduleAttemptFailure")
            return
        entry.until_s = now_s + self.times.flush_s
        self._move(entry, Place.UNSCHEDULABLE, "ScheduleAttemptFailure")

    def fail(self, entry: QueuedPod, now_s: float) -> None:
        """Note that the placement of a pod failed: it backs off. Nothing if it is no longer in the queue."""
        if self._pods.get(entry.pod.key) is not entry:
            return
        times = self.times
        entry.until_s = now_s + min(
            times.first_backoff_s * 2.0 ** min(entry.failures, 62), times.longest_backoff_s
        )
        entry.failures += 1
        self._move(entry, Place.BACKOFF, "ScheduleAttemptFailure")

    def retry(self, entry: QueuedPod) -> bool:
        """Make a pod active that found no node: more may be done for it; tell whether it still waited."""
        if not self._is_in(entry, Place.UNSCHEDULABLE):
            return False
        self._move(entry, Place.ACTIVE, "RoomSought")
        return True

    # ---- moving ----

    def _was_helped(self, entry: QueuedPod) -> bool:
        """Tell whether something happened, since the pod went in flight, that can help it."""
        helping = that_help(entry.refused_by)
        return entry.since < 0 or any(self._last.get(one, 0) > entry.since for one in helping)

    def _is_in(self, entry: QueuedPod, place: Place) -> bool:
        return self._in[place].get(entry.pod.key) is entry

    def _move(self, entry: QueuedPod, place: Place, event: str) -> None:
        self._leave(entry)
        self._enter(entry, place, event)

    def _leave(self, entry: QueuedPod) -> None:
        key = entry.pod.key
        del self._in[entry.place][key]
        if entry.place is Place.UNSCHEDULABLE:
            group = entry.group
            entries = self._refused[group]
            del entries[key]
            if not entries:
                del self._refused[group]

    def _enter(self, entry: QueuedPod, place: Place, event: str) -> None:
        key = entry.pod.key
        entry.place = place
        self._in[place][key] = entry
        if place is Place.UNSCHEDULABLE:
            entry.group = entry.refused_by, entry.pod.shape
            self._refused.setdefault(entry.group, {})[key] = entry
        elif place is Place.BACKOFF:
            heapq.heappush(self._backoff, (entry.until_s, next(self._numbers), entry))
        if place is not Place.IN_FLIGHT:
            self.on_move(place, event)
