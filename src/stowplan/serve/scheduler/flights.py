"""Placements under way: from the moment of decision until it is known what became of them.

A pod that is placed holds its resources in the state (assumed) while it is bound. What the actuator finds out
decides what is next:

    Bound               the watch will say so too; nothing else to do
    Elsewhere, Gone     the reservation is given up, the pod is no longer ours
    Released            the same, and others go on with it
    NotBound            the reservation is given up, the pod backs off
    Unknown             the reservation stays; the watch may tell, and after a pause the same is tried again,
                        on the same node and never on another: whatever was sent may still take effect

When the lease is lost, what is under way becomes unknown. Whoever leads next may place those pods; the watch
then moves them. When this instance leads again, what is still unknown is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from stowplan.core.decoder import Placed
from stowplan.core.engine import Engine
from stowplan.errors import InternalError
from stowplan.kube.api.binder import Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.scheduler.hints import Happening
from stowplan.serve.scheduler.interface import ActOutcome, Actuator, Feed, Released
from stowplan.serve.scheduler.queue import QueuedPod, SchedulingQueue
from stowplan.serve.scheduler.settings import SchedulerSettings
from stowplan.serve.scheduler.teller import Teller

__all__ = ["Flight", "Flights"]

_LOG = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Flight:
    """One placement under way.

    Attributes:
        entry: the pod in the queue.
        pod: the pod as it was decided on.
        placed: the decision.
        began_s: when its cycle began, monotonic.
        is_sent: whether it was begun to be carried out: then it may have taken effect.
        told: set when the watch shows what became of it.
        shown: the pod as the watch then showed it; None: it was deleted.
    """

    entry: QueuedPod
    pod: LivePod
    placed: Placed
    began_s: float
    is_sent: bool = False
    told: asyncio.Event = field(default_factory=asyncio.Event)
    shown: LivePod | None = None


@dataclass(frozen=True, slots=True)
class FlightParts:
    """What flights work on; all of it is made elsewhere."""

    feed: Feed
    engine: Engine
    queue: SchedulingQueue
    actuator: Actuator
    metrics: SchedulerMetrics
    teller: Teller | None
    settings: SchedulerSettings
    is_leader: Callable[[], bool]
    monotonic: Callable[[], float]
    wake: Callable[[], None]


class Flights:
    """All placements under way."""

    def __init__(self, parts: FlightParts) -> None:
        """Start with none."""
        self._parts = parts
        self._flights: dict[str, Flight] = {}  # by uid
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.failing = ""
        """What the last placement was refused with for good; empty when one succeeded since."""

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._flights)

    def start(self, entry: QueuedPod, placed: Placed, began_s: float) -> None:
        """Carry out a placement, in the background."""
        flight = Flight(entry, entry.pod, placed, began_s)
        self._flights[flight.pod.uid] = flight
        self._launch(flight)

    def resume(self) -> None:
        """Try again what was left unknown when the work was last interrupted, where it is still reserved.

        A reservation goes with its node: then the pod may be placed anew, which the API server settles.
        """
        for uid, flight in list(self._flights.items()):
            if uid in self._tasks:
                continue
            if self._is_void(flight):
                self._close(flight)
            else:
                self._launch(flight)

    async def interrupt(self) -> None:
        """Stop working on what is under way; it stays reserved, since nobody knows what became of it."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait(self, within_s: float) -> int:
        """Wait until nothing is under way, at most `within_s`; return how many still are."""
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            pass
        return len(self._flights)

    def seen(self, pod: LivePod) -> None:
        """Take in what the watch says of a pod."""
        flight = self._flights.get(pod.uid)
        if flight is not None and (pod.node_name or pod.has_ended):
            self._tell(flight, pod)

    def gone(self, pod: LivePod) -> None:
        """Take in that a pod was deleted."""
        flight = self._flights.get(pod.uid)
        if flight is not None:
            self._tell(flight, None)

    def _tell(self, flight: Flight, shown: LivePod | None) -> None:
        flight.shown = shown
        flight.told.set()
        if flight.pod.uid not in self._tasks:  # interrupted: nobody else will close it
            self._close(flight)

    # ---- one flight ----

    def _launch(self, flight: Flight) -> None:
        self._idle.clear()
        self._tasks[flight.pod.uid] = asyncio.create_task(self._fly(flight), name=f"place {flight.pod.key}")
        self._parts.metrics.in_flight(len(self._flights))

    def _close(self, flight: Flight) -> None:
        if self._flights.get(flight.pod.uid) is flight:
            del self._flights[flight.pod.uid]
        self._tasks.pop(flight.pod.uid, None)
        self._parts.metrics.in_flight(len(self._flights))
        if not self._flights:
            self._idle.set()

    async def _fly(self, flight: Flight) -> None:
        parts = self._parts
        try:
            outcome = await self._outcome(flight)
            if outcome is None and flight.is_sent:
                self._tasks.pop(flight.pod.uid, None)  # whoever leads next finds out
                return
            if outcome is None:
                self._release(flight, "this instance does not lead")
                parts.queue.fail(flight.entry, parts.monotonic())
            else:
                self._settle(flight, outcome)
        except Exception as error:  # noqa: BLE001 - whatever an actuator raises: the others go on without it
            _LOG.exception("placement broke", pod=flight.pod.key, node=flight.placed.node_name)
            self.failing = f"{type(error).__name__}: {error}"
            self._release(flight, "its placement broke")
            parts.queue.fail(flight.entry, parts.monotonic())
        self._close(flight)
        parts.wake()

    async def _outcome(self, flight: Flight) -> ActOutcome | None:
        """Carry a placement out until it is known what became of it; None: this instance does not lead."""
        parts = self._parts
        while parts.is_leader():
            flight.is_sent = True
            outcome = await parts.actuator.act(flight.pod, flight.placed)
            if not isinstance(outcome, Unknown):
                return outcome
            parts.metrics.lost("unknown")
            _LOG.warning(
                "placement unknown",
                pod=flight.pod.key,
                node=flight.placed.node_name,
                why=outcome.why,
                again_s=parts.settings.unknown_s,
            )
            if await self._is_told(flight):
                return _shown(flight)
            if self._is_void(flight):
                gone = f"node {flight.placed.node_name} is gone"
                return NotBound(KubernetesError(gone), is_transient=True)
        return None

    def _is_void(self, flight: Flight) -> bool:
        """Tell whether the placement holds no resources any more, and so cannot be gone on with."""
        parts = self._parts
        return not (parts.actuator.reserves and parts.feed.is_assumed(flight.pod))

    async def _is_told(self, flight: Flight) -> bool:
        """Wait for the watch to tell, for a while."""
        try:
            async with asyncio.timeout(self._parts.settings.unknown_s):
                await flight.told.wait()
        except TimeoutError:
            return False
        return True

    def _settle(self, flight: Flight, outcome: ActOutcome) -> None:
        parts, entry, pod = self._parts, flight.entry, flight.pod
        now_s = parts.monotonic()
        match outcome:
            case Bound(node=node):
                self._remove(entry)
                self.failing = ""
                parts.metrics.attempted("scheduled", now_s - flight.began_s)
                parts.metrics.bound(max(entry.attempts, 1), now_s - entry.ready_s)
                self._tell_bound(flight, node)
            case NotBound(error=error, is_transient=is_transient):
                self._failed(flight, str(error), is_transient=is_transient)
            case Elsewhere(node=node):
                if not parts.actuator.binds:
                    self._tell_bound(flight, node)
                self._gave_up(flight, "elsewhere", f"another scheduler has bound it to {node}")
            case Gone(why=why):
                self._gave_up(flight, "gone", why)
            case Released(why=why, loss=loss):
                self._gave_up(flight, loss, why)
            case Unknown(why=why):
                raise InternalError(f"the placement of {pod.key!r} was settled without an outcome: {why}")

    def _tell_bound(self, flight: Flight, node_name: str) -> None:
        teller = self._parts.teller
        if teller is not None:
            if self._parts.actuator.binds:
                teller.bound(flight.pod, flight.placed)
            else:
                teller.let_go(flight.pod, flight.placed, node_name)
            teller.forget(flight.pod.uid)

    def _failed(self, flight: Flight, why: str, *, is_transient: bool) -> None:
        parts, now_s = self._parts, self._parts.monotonic()
        parts.metrics.lost("refused")
        parts.metrics.attempted("error", now_s - flight.began_s)
        _LOG.warning(
            "placement refused",
            pod=flight.pod.key,
            node=flight.placed.node_name,
            why=why,
            is_transient=is_transient,
        )
        if not is_transient:
            self.failing = why
        self._release(flight, why)
        parts.queue.fail(flight.entry, now_s)
        if parts.teller is not None:
            parts.teller.not_bound(flight.pod, flight.placed.node_name, why)

    def _gave_up(self, flight: Flight, reason: str, why: str) -> None:
        if reason:
            self._parts.metrics.lost(reason)
            _LOG.info("placement lost", pod=flight.pod.key, node=flight.placed.node_name, why=why)
        self._release(flight, why)
        self._remove(flight.entry)

    def _remove(self, entry: QueuedPod) -> None:
        if self._parts.queue.get(entry.pod.key) is entry:
            self._parts.queue.remove(entry.pod.key)

    def _release(self, flight: Flight, why: str) -> None:
        """Give up the reservation, if it is still only our belief; else the watch has put the state right.

        It has not where storage is concerned that the pod would have taken: nothing happens to a volume when
        a pod is deleted that was to have it.
        """
        parts = self._parts
        if not parts.actuator.reserves:
            return
        if parts.feed.is_assumed(flight.pod):
            parts.engine.forget(flight.pod.key, why)
            parts.feed.drop(flight.pod)
            parts.queue.wake(Happening.POD_GONE, "ReservationGivenUp")
            return
        now = parts.feed.pods.get(flight.pod.key)
        if now is None or not parts.feed.is_assumed(now):  # no other pod of its name was placed since
            parts.engine.free_storage(flight.pod.key)


def _shown(flight: Flight) -> ActOutcome:
    """Return what the watch has shown of a placement."""
    shown = flight.shown
    if shown is None or not shown.node_name:
        return Gone(f"{flight.pod.key} was deleted or ended before it was bound")
    if shown.node_name == flight.placed.node_name:
        return Bound(shown.node_name)
    return Elsewhere(shown.node_name)
