"""The scheduler: waits for work, decides in short cycles, hands placements over, tells what came of it.

    watch ─► pod_set, pod_gone, cluster_changed ─► queue
                                                     │ a few ms after the first event
                                                     ▼
    1 who waits ─► 2 what is decided (Engine.cycle) ─► 3 placed: reserved, handed to the actuator
                                                       4 no node: unschedulable, or room is sought
                                                       5 told and counted
    actuator ─► bound, lost, unknown ─► queue

One thread. A cycle is synchronous and short; it looks at so many tasks as fit into `cycle_s`, and what it
deferred comes next. While many placements wait for the API server no new ones are decided: what is decided
late is decided on what is known by then.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from stowplan.core.decoder import Infeasible, Wait
from stowplan.core.domain import PendingTask, PodShape
from stowplan.core.engine import CycleReport, Engine
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.status import StatusWriter
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.scheduler.flights import FlightParts, Flights
from stowplan.serve.scheduler.hints import POLICY, Happening
from stowplan.serve.scheduler.holds import NodeHolds
from stowplan.serve.scheduler.intake import Intake
from stowplan.serve.scheduler.interface import Actuator, DecisionSink, Feed, Preemptor, TaskBook
from stowplan.serve.scheduler.queue import Place, QueuedPod, SchedulingQueue
from stowplan.serve.scheduler.room import RoomSeeker
from stowplan.serve.scheduler.settings import SchedulerSettings
from stowplan.serve.scheduler.status import Degradations, LastCycle, SchedulerStatus
from stowplan.serve.scheduler.teller import Teller
from stowplan.serve.scheduler.wording import claims_message, refusing_filters, unschedulable_message

__all__ = ["Scheduler"]

_FEWEST_TASKS = 64  # ordering all who wait costs the same however few are placed
_SETTLING_S = 0.05

_LOG = structlog.get_logger(__name__)


def _always() -> bool:
    return True


class Scheduler:
    """Schedules the selected pods of a live cluster.

    Args:
        feed: the live cluster; the scheduler begins to listen when it is made.
        engine: decides; over the feed's state.
        tasks: what pods are in their workflows.
        actuator: makes placements facts.
        selects: which pods are ours to place.
        statuses: writes conditions; None: nothing is told to anyone (shadow mode).
        events: records events; whoever made it runs it.
        decisions: keeps decisions; None: nobody does.
        preemptor: makes room for pods of higher priority; None: nobody does.
        metrics: counts.
        settings: limits and times.
        is_leader: whether this instance leads now; asked before each act.
        monotonic: a clock in seconds that never goes back.
        wall: a clock in seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - its parts are made elsewhere, each tested alone
        self,
        *,
        feed: Feed,
        engine: Engine,
        tasks: TaskBook,
        actuator: Actuator,
        selects: Callable[[LivePod], bool],
        statuses: StatusWriter | None = None,
        events: EventRecorder | None = None,
        decisions: DecisionSink | None = None,
        preemptor: Preemptor | None = None,
        metrics: SchedulerMetrics,
        settings: SchedulerSettings | None = None,
        is_leader: Callable[[], bool] = _always,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._feed = feed
        self._engine = engine
        self._tasks = tasks
        self._actuator = actuator
        self._decisions = decisions
        self._metrics = metrics
        self._settings = settings = settings or SchedulerSettings()
        self._is_leader = is_leader
        self._monotonic = monotonic
        self._wall = wall
        self._work = asyncio.Event()
        self._is_draining = False
        self._last: LastCycle | None = None
        self._degraded = Degradations()
        self._limit = settings.placements_per_cycle
        self._pause_s = settings.debounce_s
        self._holds = NodeHolds(settings.first_hold_s, settings.longest_hold_s)
        self._moves: Counter[tuple[Place, str]] = Counter()
        self._queue = SchedulingQueue(settings.queue, on_move=self._moved)
        self._teller: Teller | None = None
        if statuses is not None and events is not None:
            self._teller = Teller(
                statuses, events, metrics, settings, waits=self._still_waits, monotonic=monotonic
            )
        self._flights = Flights(
            FlightParts(
                feed=feed,
                engine=engine,
                queue=self._queue,
                actuator=actuator,
                metrics=metrics,
                teller=self._teller,
                settings=settings,
                is_leader=is_leader,
                monotonic=monotonic,
                wake=self._work.set,
            )
        )
        self._room: RoomSeeker | None = None
        if preemptor is not None:
            self._room = RoomSeeker(preemptor, self._queue, self._no_room, settings, self._work.set)
        self._intake = Intake(
            feed=feed,
            queue=self._queue,
            flights=self._flights,
            holds=self._holds,
            actuator=actuator,
            metrics=metrics,
            teller=self._teller,
            selects=selects,
            monotonic=monotonic,
            wall=wall,
            wake=self._work.set,
        )
        metrics.pending(lambda queue: self._queue.count(Place(queue)))
        feed.listen(self._intake)

    # ---- the face ----

    @property
    def status(self) -> SchedulerStatus:
        """How it fares now."""
        degraded = dict(self._degraded.why)
        if self._flights.failing:
            degraded["placements"] = self._flights.failing
        if self._teller is not None and self._teller.failing:
            degraded["conditions"] = self._teller.failing
        return SchedulerStatus(
            queues={place.value: self._queue.count(place) for place in Place},
            under_way=self.under_way,
            closed=self._holds.closed(self._monotonic()),
            is_draining=self._is_draining,
            last_cycle=self._last,
            degraded=degraded,
        )

    @property
    def under_way(self) -> int:
        """How many placements are being carried out, those included whose outcome is not known."""
        return len(self._flights)

    async def run(self) -> None:
        """Schedule while this instance leads, until cancelled; may be run again after that.

        It begins anew with what the feed knows. What was under way when it was last cancelled, and is not
        known yet, is tried again.
        """
        while not self._feed.is_settled:  # noqa: ASYNC110 - that is a question, which tells nobody
            await asyncio.sleep(_SETTLING_S)
        self._flights.resume()
        self._intake.begin()
        _LOG.info("scheduling", waiting=len(self._queue), under_way=self.under_way)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._teller is not None:
                    tasks.create_task(self._teller.run())
                if self._room is not None:
                    tasks.create_task(self._room.run())
                tasks.create_task(self._decide())
        finally:
            await self._flights.interrupt()

    async def drain(self, within_s: float) -> int:
        """Begin no new cycle and wait for what is under way; return how many outcomes are not known.

        Args:
            within_s: how long to wait at most.
        """
        self._is_draining = True
        left = await self._flights.wait(within_s)
        _LOG.info("drained", unknown=left, waiting=len(self._queue) - left)
        return left

    def _still_waits(self, pod: LivePod) -> bool:
        now = self._feed.pods.get(pod.key)
        return now is not None and now.uid == pod.uid and now.is_waiting and not self._feed.is_assumed(now)

    # ---- the loop ----

    async def _decide(self) -> None:
        while True:
            await self._wait_for_work()
            try:
                self._cycle()
            except Exception as error:  # noqa: BLE001 - pods back off, the state says so, it is tried again
                self._degraded.cycle_failed(error)
                for entry in self._queue.ready():
                    self._queue.fail(entry, self._monotonic())

    async def _wait_for_work(self) -> None:
        """Return when there are active pods and placements may be decided, a little after the first event."""
        pause_s = self._pause_s
        while True:
            await asyncio.sleep(pause_s)
            now_s = self._monotonic()
            self._queue.advance(now_s)
            if self._holds.have_opened(now_s):
                self._queue.wake(Happening.NODE_OPENED, "NodeOpened")
            self._queue.admit(self._may_fit)
            if self._may_decide():
                return
            self._work.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sleep_s(now_s)):
                    await self._work.wait()
            pause_s = self._settings.debounce_s

    def _may_fit(self, shape: PodShape) -> bool:
        """Tell whether a cycle may find a node for a shape, or room be made for it."""
        makes_way = self._room is not None and shape.priority > 0
        return makes_way or bool(self._engine.filters_of(shape).feasible.any())

    def _may_decide(self) -> bool:
        return (
            self._queue.count(Place.ACTIVE) > 0
            and not self._is_draining
            and self._is_leader()
            and self._feed.is_settled
            and self._actuator.backlog < self._settings.bindings
        )

    def _sleep_s(self, now_s: float) -> float:
        due = [self._queue.next_due_s(), self._holds.next_due_s(now_s), now_s + 1.0]
        return max(min(at_s for at_s in due if at_s is not None) - now_s, 0.001)

    def _moved(self, place: Place, event: str) -> None:
        self._moves[place, event] += 1  # counted for all pods together, once a cycle

    # ---- one cycle ----

    def _cycle(self) -> None:
        now_s = self._monotonic()
        # 1. Who waits.
        entries = {entry.pod.key: entry for entry in self._queue.ready() if self._is_placeable(entry, now_s)}
        if not entries:
            return
        pending = [task for entry in list(entries.values()) if (task := self._task_of(entry)) is not None]
        running = self._tasks.running
        begun = self._decisions.begin(now_s, pending, running) if self._decisions is not None else None
        # 2. What is decided. The placements are in the state when this returns.
        closed, began_s = self._holds.closed(now_s), self._monotonic()
        report = self._engine.cycle(now_s, pending, running, limit=self._limit, closed=closed)
        self._adapt(report, self._monotonic() - began_s)
        # 3. Those with a node: reserved first, all of them, then handed over.
        pods = {key: entry.pod for key, entry in entries.items()}
        self._place(report, entries, now_s)
        # 4. Those without.
        self._refuse(report, entries, now_s)
        # 5. What is told and counted.
        if self._decisions is not None:
            self._decisions.end(begun, report, pods)
        self._close_books(report, now_s)

    def _is_placeable(self, entry: QueuedPod, now_s: float) -> bool:
        """Sort out pods that no cycle can place."""
        pod = entry.pod
        if pod.shape.resource_claims:
            self._queue.refuse(entry, ("DynamicResources",), now_s)
            if self._teller is not None:
                self._teller.unschedulable(pod, claims_message(pod), frozenset({"DynamicResources"}))
            return False
        if pod.key in self._engine.state.pods:
            # The state has it on a node, or a namesake that is not gone yet: the watch will put that right.
            self._queue.fail(entry, now_s)
            return False
        return True

    def _task_of(self, entry: QueuedPod) -> PendingTask | None:
        """Return the pod as a task; None for one that cannot be made out: the others go on without it."""
        try:
            return self._tasks.task_of(entry.pod, entry.ready_s)
        except Exception:  # noqa: BLE001 - whatever a task book raises about one pod: the others go on
            _LOG.exception("pod is no task", pod=entry.pod.key)
            self._queue.fail(entry, self._monotonic())
            return None

    def _place(self, report: CycleReport, entries: Mapping[str, QueuedPod], now_s: float) -> None:
        reserves = self._actuator.reserves
        for task, placed in report.placed:
            entry = entries[task.key]
            self._queue.placed(entry)
            if reserves:
                self._feed.assume(entry.pod, placed.node_name)
            else:
                self._engine.forget(task.key, "nothing is reserved in this mode")
        for task, placed in report.placed:
            self._flights.start(entries[task.key], placed, now_s)

    def _refuse(self, report: CycleReport, entries: Mapping[str, QueuedPod], now_s: float) -> None:
        said: dict[int, tuple[str, frozenset[str]]] = {}  # pods of one shape share their outcome
        lowest = self._room.lowest_priority(self._engine.state) if self._room and report.waiting else None
        for task, outcome in (*report.waiting, *report.infeasible):
            entry = entries[task.key]
            if id(outcome) not in said:
                said[id(outcome)] = self._explain(task, outcome)
            message, refused_by = said[id(outcome)]
            makes_way = lowest is not None and entry.pod.shape.priority > lowest and entry.pod.can_preempt
            if (
                self._room is not None
                and makes_way
                and isinstance(outcome, Wait)
                and self._room.seek(entry, task, refused_by, message)
            ):
                continue
            self._queue.refuse(entry, refused_by, now_s)
            if self._teller is not None:
                self._teller.unschedulable(entry.pod, message, refused_by)

    def _explain(self, task: PendingTask, outcome: Wait | Infeasible) -> tuple[str, frozenset[str]]:
        state = self._engine.state
        message = unschedulable_message(state, self._engine.filters_of(task.task.shape), outcome)
        return message, refusing_filters(state, outcome, POLICY)

    def _no_room(self, entry: QueuedPod, refused_by: frozenset[str], message: str) -> None:
        """Go on with a pod for which room was sought; if some is made, it is woken when that is done."""
        self._queue.refuse(entry, refused_by, self._monotonic())
        if self._teller is not None:
            self._teller.unschedulable(entry.pod, message, refused_by)
        self._work.set()

    def _close_books(self, report: CycleReport, began_s: float) -> None:
        took_s = self._monotonic() - began_s
        refused = len(report.waiting) + len(report.infeasible)
        self._metrics.cycled(took_s)
        if refused:
            self._metrics.attempted("unschedulable", took_s, refused)
        self._metrics.unschedulable(self._queue.refusals())
        for (place, event), count in self._moves.items():
            self._metrics.queued(place, event, count)
        self._moves.clear()
        self._last = LastCycle(
            self._wall(),
            took_s,
            len(report.placed),
            len(report.waiting),
            len(report.infeasible),
            len(report.deferred),
        )
        self._degraded.cycled(report.degraded)
        self._pause_s = 0.0 if report.deferred else self._settings.debounce_s
        if not report.placed:
            self._pause_s = max(self._pause_s, min(took_s, self._settings.longest_pause_s))

    def _adapt(self, report: CycleReport, took_s: float) -> None:
        """Look at as many tasks in the next cycle as fit into `cycle_s`, by what this one took."""
        settings = self._settings
        if not report.deferred and took_s <= settings.cycle_s:
            return  # it was not at its limit
        looked_at = max(
            min(len(report.placed) + len(report.waiting) + len(report.infeasible), self._limit), 1
        )
        fits = int(looked_at * settings.cycle_s / max(took_s, 1e-6))
        self._limit = max(min(fits, 2 * self._limit, settings.placements_per_cycle), _FEWEST_TASKS)
