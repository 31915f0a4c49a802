"""The discrete-event cluster: submissions in, the core's scheduling cycle, machines that obey physics.

One step goes to the next instant that matters: a task ends, a workflow arrives, something breaks or recovers,
a cycle is due. Between such instants everything happens inside the compiled kernel. At an instant the order
is: ends, then faults, drift and tenants, then arrivals, then one scheduling cycle over all that is pending.

**Determinism contract.** A run is a function of (cluster, workload, policy, seed, rules, faults, contention,
options, laws): the same arguments give the same results byte for byte, in another process too. There is one
seam for time, the kernel's `now_s`, and one for chance: `numpy.random.SeedSequence(seed)` is spawned into
five streams (arrivals, faults, ties of the policy, drift, noise of readings), so what one consumes does not
move the others, and two policies under one seed meet the same arrivals and faults. Nothing iterates over a
set or depends on hashes of text, and no clock is read. Events at one instant have a total order: the
kernel's, then that of planning, then that of arrival (time, then key).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.core.decoder import Infeasible, Wait
from stowplan.core.domain import PendingTask, PodShape
from stowplan.core.engine import CycleReport, Engine
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy import CycleView, Policy, make_policy
from stowplan.core.policy.interface import reads_nodes
from stowplan.core.semantics import NodeReadings
from stowplan.errors import InternalError
from stowplan.simulate.background import Background
from stowplan.simulate.book import EndStatus, TaskBook
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.control_plane import ControlPlane
from stowplan.simulate.disturbances import Disturbances
from stowplan.simulate.faults import NO_FAULTS, FaultPlan
from stowplan.simulate.floor import Floor
from stowplan.simulate.kernel import Wake
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.pending import PendingQueue
from stowplan.simulate.progress import Observer, RunProgress
from stowplan.simulate.record import RunRecord
from stowplan.simulate.results import RunResult
from stowplan.simulate.sensors import Sensors
from stowplan.simulate.site import Site
from stowplan.simulate.stage import Stage
from stowplan.simulate.summary import collect
from stowplan.simulate.timeline import Timeline
from stowplan.simulate.usage import readings_of
from stowplan.simulate.workloads.arrivals import Arrivals
from stowplan.simulate.workloads.model import Workload

__all__ = ["Simulation"]

_ENDS = Wake.FINISHED | Wake.OOM_KILLED | Wake.EVICTED
_STEPS_PER_OBSERVATION = 256
_DEFAULT_OPTIONS = SimulationOptions()


class Simulation:
    """One run. `run` may be called once; `result` gives what there is at any time."""

    def __init__(  # noqa: PLR0913  (each is one aspect of a run)
        self,
        cluster: Cluster,
        workload: Workload,
        policy: Policy | str,
        *,
        seed: int,
        arrivals: Arrivals | None = None,
        rules: RuleTable = NO_RULES,
        faults: FaultPlan = NO_FAULTS,
        contention: bool = True,
        options: SimulationOptions = _DEFAULT_OPTIONS,
        laws: PhysicsLaws | None = None,
        fallback: Policy | None = None,
    ) -> None:
        """Set the stage at time 0.

        Args:
            cluster: the machines, with their background tenants and drift.
            workload: what is submitted, when; `arrivals` draws other times.
            policy: a policy or its name. A policy object must not be shared by two runs: it may keep caches.
            seed: everything that chance decides follows from it.
            arrivals: None takes the workload's own, if it has any, else its times as they are.
            rules: the operator's rule table.
            faults: what breaks.
            contention: False: tasks never slow each other down.
            options: surroundings of the scheduler.
            laws: constants of the physics.
            fallback: decides when the policy fails; None: the failure ends the run.

        Raises:
            UnknownName: no policy, node, rack or zone of that name.
            InvalidInput: the cluster or workload cannot be simulated; says why.
        """
        arrival_seed, fault_seed, tie_seed, drift_seed, sensor_seed = np.random.SeedSequence(seed).spawn(5)
        arrivals = workload.arrivals if arrivals is None else arrivals
        if arrivals is not None:
            recorded_s = [submission.time_s for submission in workload.submissions]
            workload = workload.at_times(
                arrivals.times_s(recorded_s, np.random.default_rng(arrival_seed)).tolist()
            )
        self.cluster = cluster
        self.workload = workload
        self.policy = make_policy(policy) if isinstance(policy, str) else policy
        self.seed = seed
        self.options = options
        self.book = TaskBook(workload.submissions)
        self.site = Site(cluster, laws if laws is not None else PhysicsLaws(), contention=contention)
        self.floor = Floor(cluster, self.site, self.book, options)
        self.pending = PendingQueue(options.window_tasks)
        self.engine = Engine(
            self.site.state, self.policy, rng=np.random.default_rng(tie_seed), rules=rules, fallback=fallback
        )
        self.cycles = 0
        self.degraded_cycles = 0
        self.refused: dict[int, str] = {}  # task id → why it never ran
        self._timeline = Timeline()
        self._control = ControlPlane(
            site=self.site,
            book=self.book,
            floor=self.floor,
            pending=self.pending,
            timeline=self._timeline,
            options=options,
        )
        stage = Stage(self.site, self._timeline, self._control, options)
        self._disturbances = Disturbances(stage, cluster, faults, fault_seed)
        self._background = Background(stage, cluster, drift_seed)
        self.usage, self.node_usage = readings_of(cluster, workload, options)
        self._sensors = (
            Sensors(self.site, cluster, options.sensors, sensor_seed)
            if reads_nodes(self.policy) or reads_nodes(fallback)
            else None
        )
        self._wakes: set[float] = set()  # times at which a back-off of the scheduler ends
        self._waits: Sequence[tuple[PendingTask, Wait]] = ()
        self._cycle_s = math.inf
        self._is_quiet = True  # no event since the last reading
        self._stop_requested = False

    # ---- running --------------------------------------------------------------------------------

    def run(self, observer: Observer | None = None) -> RunResult:
        """Run to the end and return the result; `observer` is called now and then.

        The end is when every task of every submission has ended, or the horizon, or `request_stop`.

        Raises:
            StowplanError: the policy failed and there is no fallback.
            InternalError: an invariant does not hold (checked after every step when `options.validates`).
        """
        steps = 0
        while not self.is_over:
            self.step()
            steps += 1
            if self.options.validates:
                self.validate_state()
            if observer is not None and steps % _STEPS_PER_OBSERVATION == 0:
                observer(self.progress)
        if observer is not None:
            observer(self.progress)
        return self.result()

    def request_stop(self) -> None:
        """End the run after the step under way; safe to call from a signal handler."""
        self._stop_requested = True

    def result(self) -> RunResult:
        """Return what there is so far; it is marked partial unless every task has ended."""
        for readings in (self.usage, self.node_usage):
            readings.take(self.site.kernel)
        self.floor.gangs.account()
        return collect(
            RunRecord(
                policy=self.policy.name,
                seed=self.seed,
                cluster=self.cluster,
                machines=self.site.machines,
                book=self.book,
                ledger=self.floor.ledger,
                demands=self.floor.demands,
                kernel=self.site.kernel,
                usage=self.usage,
                node_usage=self.node_usage,
                refused=self.refused,
                now_s=self.now_s,
                is_partial=not self.is_complete,
                cycles=self.cycles,
                degraded_cycles=self.degraded_cycles,
                backlog_peak=self.pending.peak,
                faults=self.faults_occurred,
                training=self.floor.gangs.runs,
            )
        )

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self.site.kernel.now_s

    @property
    def progress(self) -> RunProgress:
        """How far the run is."""
        return RunProgress(
            self.now_s,
            len(self.book.tasks),
            self.book.ended_tasks,
            len(self.pending),
            len(self.floor.running),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every task has ended."""
        return self.book.ended_tasks == len(self.book.tasks)

    @property
    def is_over(self) -> bool:
        """Whether there is no further step."""
        return self._stop_requested or self.is_complete or self.now_s >= self.options.horizon_s

    @property
    def faults_occurred(self) -> int:
        """How many faults struck so far."""
        return self._disturbances.occurred

    def step(self) -> None:
        """Go to the next instant that matters and deal with all that happens there."""
        self.advance()
        self.decide()

    def advance(self) -> bool:
        """Go to the next instant that matters, short of deciding; return whether tasks are to be decided on.

        `decide` must follow; `view` is what the policy will be shown.
        """
        kernel, book = self.site.kernel, self.book
        arrival_s = book.next_arrival_s
        until_s = min(
            self._cycle_s,
            self._timeline.next_s,
            self.usage.next_s,
            self.node_usage.next_s,
            self._sensors.next_s if self._sensors is not None else math.inf,
            self.options.horizon_s,
            arrival_s if arrival_s is not None else math.inf,
        )
        # 1. The machines work until something ends, or until the next instant that is known.
        events = kernel.advance(until_s, wake=_ENDS if self._cycle_s == math.inf else Wake.NOTHING)
        now_s = kernel.now_s
        # 2. What ended.
        if len(events):
            self._is_quiet = False
            for kernel_id in self._control.take_in(events):
                self._background.ended(kernel_id)
        # 3. What broke, recovered or began beside our work.
        if self._timeline.next_s <= now_s:
            self._timeline.run_due(now_s)
        # 4. Who arrived.
        while arrival_s is not None and arrival_s <= now_s:
            self._control.queue(book.arrive())
            arrival_s = book.next_arrival_s
        if self.usage.next_s <= now_s or self.node_usage.next_s <= now_s:
            self._read_usage(now_s)
        if self._sensors is not None and self._sensors.next_s <= now_s:
            self._sensors.take()
        # 5. Decide.
        if self._control.wants_cycle and self._cycle_s == math.inf:
            self._cycle_s = self._next_cycle_s(now_s)
        return self._cycle_s <= now_s and len(self.pending) > 0

    def decide(self) -> None:
        """Run the scheduling cycle that is due, if one is, and give up what can no longer happen."""
        now_s = self.now_s
        if self._cycle_s <= now_s:
            self._decide(now_s)
        # 6. Nothing left to happen.
        while self._is_starving():
            self._end_starved(now_s)
        # 7. What is done together goes at one pace.
        self.floor.gangs.couple()

    @property
    def view(self) -> CycleView:
        """What a policy is shown that decides now."""
        return CycleView(
            self.site.state,
            self.now_s,
            self.pending.window(),
            self.engine.rng,
            self.floor.running,
            self.engine.filters_of,
            readings=self.readings,
        )

    @property
    def readings(self) -> NodeReadings | None:
        """What is measured of the nodes by now; None: no policy of this run looks."""
        return self._sensors.board(self.now_s) if self._sensors is not None else None

    # ---- deciding -------------------------------------------------------------------------------

    def _next_cycle_s(self, now_s: float) -> float:
        interval_s = self.options.scheduling_interval_s
        due_s = now_s
        if interval_s > 0.0:
            due_s = max(now_s, math.ceil(now_s / interval_s - 1e-9) * interval_s)
        return due_s + self._disturbances.api_delay_s

    def _decide(self, now_s: float, *, looks_at_all: bool = False) -> None:
        """Run cycles until all that may be looked at has been; `looks_at_all` ignores the back-off."""
        control = self._control
        control.wants_cycle = False
        self._cycle_s = math.inf
        readings = self.readings
        seen: dict[PodShape, None] = {}  # by windows since something was last placed
        while len(self.pending):
            window = self.pending.window()
            if control.backoff.is_on and not looks_at_all:
                window = control.backoff.eligible(window, now_s)
                if not window:
                    break
            report = self.engine.cycle(now_s, window, self.floor.running, readings=readings)
            self.cycles += 1
            self.degraded_cycles += report.degraded is not None
            self._carry_out(report, now_s)
            if self.options.window_tasks is None:
                break
            if report.placed:
                seen.clear()
            looked_at = [task.task.shape for task, _ in (*report.waiting, *report.infeasible)]
            self.pending.put_last(looked_at)
            seen.update(dict.fromkeys(looked_at))
            if self.pending.shapes <= seen.keys():
                break
        if control.backoff.is_on:
            self._plan_wake(control.backoff.next_s(self.pending.tasks()))
        self.pending.note_backlog()

    def _plan_wake(self, wake_s: float) -> None:
        """Have a cycle at `wake_s`, when a back-off ends; inf: none."""

        def wake(time_s: float) -> None:
            self._wakes.discard(time_s)
            self._control.wants_cycle = True

        if wake_s < math.inf and wake_s not in self._wakes:
            self._wakes.add(wake_s)
            self._timeline.plan(wake_s, wake)

    def _carry_out(self, report: CycleReport, now_s: float) -> None:
        placed = {outcome.key for _, outcome in report.placed}
        if self._control.backoff.is_on:
            unplaced = [task for task, _ in (*report.waiting, *report.infeasible)]
            self._control.backoff.note_failures(unplaced, now_s)
            self._control.backoff.forget(placed)
        if placed:
            self.floor.start(report.placed, now_s, self._disturbances.api_delay_s)
            self.pending.remove(placed, [task for task, _ in report.placed])
        self._waits = report.waiting
        if report.infeasible and not self.site.expects_nodes:
            self._refuse(report.infeasible, now_s, EndStatus.INFEASIBLE)

    def _refuse(
        self, tasks: Sequence[tuple[PendingTask, Infeasible | Wait]], now_s: float, status: EndStatus
    ) -> None:
        """Give up pending tasks with their reasons; what depends on them is skipped, the rest runs on."""
        self.pending.remove({task.key for task, _ in tasks}, [task for task, _ in tasks])
        for task, outcome in tasks:
            task_id = self.book.id_of[task.key]
            self.refused[task_id] = outcome.reason
            self.book.failed(task_id, now_s, status)

    def _is_starving(self) -> bool:
        """Whether tasks wait and nothing can change any more."""
        return (
            len(self.pending) > 0
            and not (self.floor.running or self._control.has_tasks_under_way)
            and not (self._control.wants_cycle or self._wakes or self._cycle_s < math.inf)
            and self.book.next_arrival_s is None
            and not self.site.expects_nodes
        )

    def _end_starved(self, now_s: float) -> None:
        """Look once more at all that waits; if nothing was placed, give it up."""
        self._decide(now_s, looks_at_all=True)
        if self.floor.running or not len(self.pending):
            return
        if not self._waits:
            raise InternalError(f"{len(self.pending)} tasks wait at {now_s} s but no cycle looked at them")
        self._refuse(self._waits, now_s, EndStatus.STARVED)

    # ---- readings and checks --------------------------------------------------------------------

    def _read_usage(self, now_s: float) -> None:
        if self.node_usage.next_s <= now_s:
            self.node_usage.take(self.site.kernel)
        if self.usage.next_s <= now_s:
            self.usage.take(self.site.kernel)
            if self._is_quiet and not self._control.wants_cycle and not len(self._timeline):
                self._require_motion(now_s)
            self._is_quiet = True

    def _require_motion(self, now_s: float) -> None:
        """Refuse to wait for tasks that will never end: nothing is planned and none makes progress."""
        kernel, attempts = self.site.kernel, self.floor.attempt_of
        ids = np.array(list(attempts), dtype=np.int64)
        is_under_way = ~np.isnan(kernel.started_s(ids))
        if ids.size and is_under_way.all() and not (kernel.rate(ids) > 0.0).any():
            key = self.book.keys[self.floor.ledger.task[attempts[int(ids[0])]]]
            raise InternalError(
                f"at {now_s} s all {len(ids)} tasks stand still with nothing planned; one is {key!r}"
            )

    def validate_state(self) -> None:
        """Check that cluster state, kernel and simulator agree, and that no task is lost or bound twice.

        Raises:
            InternalError: one does not hold; the message names what and where.
        """
        self.site.validate()
        self.floor.validate(self._control.unheard_attempts)
        pending = {task.key for task in self.pending.tasks()}
        if len(pending) != len(self.pending):
            raise InternalError(f"{len(self.pending)} tasks are counted as pending, {len(pending)} are there")
        self.book.validate(pending | self._control.keys_under_way, set(self.floor.running))
