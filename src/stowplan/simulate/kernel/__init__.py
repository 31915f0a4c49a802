"""The discrete-event fluid kernel: who runs where, how fast, and what happens next.

Between two events every rate is constant (fluid model), so the next event is the soonest completion, start,
bucket edge, memory limit or scheduled change. Only the node and the links that an event touches are solved
again, by the laws of `stowplan.core.physics`; the loop is compiled and calls no Python per event.

How to drive it (`FluidKernel` is in `stowplan.simulate.kernel.kernel`, the rest is here)::

    kernel = FluidKernel(nodes, laws=PhysicsLaws(), schedule=KernelSchedule.of([...]), contention=True)
    profile = kernel.add_profiles(KernelProfiles.from_phases([[TaskPhase(work_s=30.0, cpu_cores=2.0)]]))
    task = kernel.start(TaskStarts.of(row=[0, 1], profile=profile, cpu_weight=79.0, cpu_limit_cores=2.0))
    while True:
        events = kernel.advance(until_s=3600.0)  # up to the first instant a scheduler must see
        ...                                      # events.time_s, .kind, .task, .row; kernel.now_s is the time
        kernel.stop(task[:1])                    # preempt or kill: its work is lost

Signatures (all of `FluidKernel`; ids are int64 arrays (n,))::

    FluidKernel(nodes: KernelNodes, *, laws: PhysicsLaws = PhysicsLaws(),
                schedule: KernelSchedule | None = None, contention: bool = True, start_s: float = 0.0)
    now_s: float                          simulated time, only ever grows
    add_profiles(profiles: KernelProfiles) -> ids       usable from now on
    start(starts: TaskStarts) -> task ids               ascending, never used again
    stop(tasks) -> None                                 running or not yet started; raises on others
    set_node_state(row: int, *, up: bool) -> None       at now_s; by schedule at any time
    set_node_capacity(row: int, resource: Resource, factor: float) -> None
    set_link_capacity(link: int, factor: float) -> None
    set_pace(tasks, pace, cause) -> None  tasks that others hold up, such as the workers of one training job
    advance(until_s: float, *, wake: Wake = Wake.SCHEDULER) -> KernelEvents
                                          all events up to the return, those of one instant together;
                                          afterwards now_s is that instant, or until_s
    progress(tasks) -> (n,)               share of all work done, 0 … 1
    rate(tasks) -> (n,)                   work seconds per second, now
    slowdown_by_cause(tasks) -> (n, CAUSE_COUNT)        seconds lost so far, by `Cause`;
                                          elapsed = work done + sum over causes
    started_s(tasks), finished_s(tasks) -> (n,)         NaN = not yet
    running(row: int) -> task ids         on a node
    utilisation() -> (N, RESOURCE_COUNT)  resource-seconds used since the start, by `Resource`
    gpu_seconds() -> (N,)                 busy GPU-seconds since the start
    link_use() -> ((links,), (links,))    bytes per second carried now, and capacity
    memory_bytes() -> (N, 2)              anonymous memory and page cache now
    statistics() -> KernelStatistics      events, solves, sweeps, non-converged solves
    validate() -> None                    re-checks all cross-array invariants; raises InternalError

`contention=False` lets every task run at its own speed (capacities are not enforced, memory limits are).

Guarantees: the order of events is total, (time, priority, sequence): scheduled changes by entry, then
completions by node row and task id, those that a link decides by link id, then starts by task id. Reading
(`progress`, `slowdown_by_cause`, `utilisation`, `validate` …) changes nothing. Same inputs, same bytes out,
in another process too.
"""

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Cause, LinkClass, Resource
from stowplan.simulate.kernel.events import ChangeKind, EventKind, KernelEvents, Wake
from stowplan.simulate.kernel.profiles import (
    FLOW_SLOTS,
    OWN_NIC_DOWN,
    OWN_NIC_UP,
    PHASE_DTYPE,
    RACK_DOWN,
    RACK_UP,
    ZONE_DOWN,
    ZONE_UP,
    Flow,
    KernelProfiles,
    TaskPhase,
    flow_path,
    own_root_complex,
)
from stowplan.simulate.kernel.tables import KernelNodes, KernelSchedule, TaskStarts

__all__ = [
    "FLOW_SLOTS",
    "OWN_NIC_DOWN",
    "OWN_NIC_UP",
    "PHASE_DTYPE",
    "RACK_DOWN",
    "RACK_UP",
    "ZONE_DOWN",
    "ZONE_UP",
    "Cause",
    "ChangeKind",
    "EventKind",
    "Flow",
    "KernelEvents",
    "KernelNodes",
    "KernelProfiles",
    "KernelSchedule",
    "LinkClass",
    "PhysicsLaws",
    "Resource",
    "TaskPhase",
    "TaskStarts",
    "Wake",
    "flow_path",
    "own_root_complex",
]
