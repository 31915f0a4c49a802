"""Hand-worked episodes of the kernel: who runs how fast, when what happens, and what it lost to whom."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.errors import InternalError, InvalidInput, StateConflict
from stowplan.simulate.kernel import (
    OWN_NIC_DOWN,
    OWN_NIC_UP,
    RACK_UP,
    Cause,
    ChangeKind,
    EventKind,
    Flow,
    KernelNodes,
    KernelProfiles,
    KernelSchedule,
    Resource,
    TaskPhase,
    TaskStarts,
    Wake,
    own_root_complex,
)
from stowplan.simulate.kernel.kernel import FluidKernel

GB = 1e9


def kernel_with(
    *phases: TaskPhase | list[TaskPhase],
    nodes: KernelNodes | None = None,
    schedule: KernelSchedule | None = None,
    contention: bool = True,
) -> tuple[FluidKernel, NDArray[np.int64]]:
    """One profile per argument, on one node of four cores unless told otherwise."""
    kernel = FluidKernel(nodes or KernelNodes.of(1, cpu_cores=4.0), schedule=schedule, contention=contention)
    lists = [phase if isinstance(phase, list) else [phase] for phase in phases]
    return kernel, kernel.add_profiles(KernelProfiles.from_phases(lists))


def run_out(kernel: FluidKernel) -> None:
    """Run to the end, checking all invariants at every instant."""
    kernel.validate()
    while len(kernel.advance(np.inf, wake=Wake.SCHEDULER | Wake.PHASE_DONE)):
        kernel.validate()


def test_three_tasks_of_two_cores_share_four() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=2.0))
    tasks = kernel.start(TaskStarts.of([0, 0, 0], profile))
    assert kernel.rate(tasks) == pytest.approx([2.0 / 3.0] * 3)
    events = kernel.advance(np.inf)
    assert events.kind.tolist() == [EventKind.FINISHED] * 3
    assert events.task.tolist() == tasks.tolist()
    assert kernel.now_s == pytest.approx(15.0)
    assert kernel.slowdown_by_cause(tasks)[:, Cause.CPU] == pytest.approx([5.0] * 3)
    assert kernel.utilisation()[0, Resource.CPU] == pytest.approx(60.0)
    kernel.validate()


def test_the_one_that_comes_later_slows_the_first_only_from_then_on() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=4.0))
    tasks = kernel.start(TaskStarts.of([0, 0], profile, start_s=[0.0, 6.0]))
    run_out(kernel)
    # First: 6 s alone, then 4 s of work at half speed. Second: 4 s of work meanwhile, 6 s alone.
    assert kernel.finished_s(tasks) == pytest.approx([14.0, 20.0])
    assert kernel.started_s(tasks) == pytest.approx([0.0, 6.0])


def test_weights_limits_and_speeds() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=12.0, cpu_cores=4.0))
    tasks = kernel.start(TaskStarts.of([0, 0], profile, cpu_weight=[100.0, 300.0]))
    assert kernel.rate(tasks) == pytest.approx([0.25, 0.75])
    kernel.stop(tasks)
    limited = kernel.start(TaskStarts.of(0, profile, cpu_limit_cores=1.0, speed=2.0))
    assert kernel.rate(limited) == pytest.approx([0.5])
    run_out(kernel)
    lost = kernel.slowdown_by_cause(limited)[0]
    assert lost[Cause.MACHINE] == pytest.approx(-6.0)
    assert lost[Cause.CPU] == pytest.approx(18.0)
    assert kernel.finished_s(limited)[0] == pytest.approx(24.0)


def test_phases_follow_each_other_and_one_without_work_passes_at_once() -> None:
    kernel, profile = kernel_with([TaskPhase(work_s=2.0), TaskPhase(work_s=0.0), TaskPhase(work_s=3.0)])
    task = kernel.start(TaskStarts.of(0, profile))
    first = kernel.advance(np.inf, wake=Wake.PHASE_DONE)
    assert first.kind.tolist() == [EventKind.PHASE_DONE] * 2
    assert first.time_s.tolist() == [2.0, 2.0]
    assert kernel.progress(task)[0] == pytest.approx(0.4)
    assert kernel.advance(3.0, wake=Wake.PHASE_DONE).kind.tolist() == []
    assert kernel.now_s == 3.0
    assert kernel.progress(task)[0] == pytest.approx(0.6)
    run_out(kernel)
    assert kernel.finished_s(task)[0] == 5.0


def test_a_growing_task_is_killed_when_it_passes_its_limit() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, anon_bytes=4 * GB))
    tasks = kernel.start(TaskStarts.of([0, 0], profile, memory_limit_bytes=[1 * GB, 5 * GB]))
    events = kernel.advance(np.inf)
    assert (events.kind.tolist(), events.task.tolist()) == ([EventKind.OOM_KILLED], [tasks[0]])
    assert events.time_s[0] == pytest.approx(2.5)
    run_out(kernel)
    assert kernel.finished_s(tasks)[1] == pytest.approx(10.0)


def test_a_node_without_memory_evicts_who_is_most_above_its_request() -> None:
    nodes = KernelNodes.of(1, cpu_cores=4.0, memory_bytes=6 * GB)
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, anon_bytes=4 * GB), nodes=nodes)
    tasks = kernel.start(TaskStarts.of([0, 0], profile, memory_request_bytes=[4 * GB, 1 * GB]))
    events = kernel.advance(np.inf)
    assert (events.kind.tolist(), events.task.tolist()) == ([EventKind.EVICTED], [tasks[1]])
    assert events.time_s[0] == pytest.approx(7.5)
    assert kernel.memory_bytes()[0, 0] == pytest.approx(3 * GB)
    run_out(kernel)


def test_page_cache_saves_the_disk_until_memory_is_needed() -> None:
    nodes = KernelNodes.of(1, cpu_cores=4.0, memory_bytes=10 * GB, disk_bytes_per_s=0.5 * GB)
    reader = TaskPhase(work_s=10.0, disk_read_bytes_per_s=1 * GB, cache_bytes=8 * GB, cache_hit=0.5)
    hog = [TaskPhase(work_s=0.0, anon_bytes=10 * GB), TaskPhase(work_s=100.0, anon_bytes=10 * GB)]
    kernel, profiles = kernel_with(reader, hog, nodes=nodes)
    alone = kernel.start(TaskStarts.of(0, profiles[:1]))
    assert kernel.rate(alone)[0] == pytest.approx(1.0)
    assert kernel.memory_bytes()[0].tolist() == [0.0, 8 * GB]
    kernel.start(TaskStarts.of(0, profiles[1:]))
    kernel.advance(1.0)
    assert kernel.rate(alone)[0] == pytest.approx(0.5)
    assert kernel.memory_bytes()[0].tolist() == [10 * GB, 0.0]
    kernel.validate()


def test_an_empty_burst_bucket_slows_to_the_base_rate() -> None:
    nodes = KernelNodes.of(
        1, cpu_cores=4.0, disk_bytes_per_s=1 * GB, disk_base_bytes_per_s=0.25 * GB, disk_bucket_bytes=3 * GB
    )
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, disk_write_bytes_per_s=1 * GB), nodes=nodes)
    task = kernel.start(TaskStarts.of(0, profile))
    run_out(kernel)
    # 4 s at full speed drain 3 GB at 0.75 GB/s net, then 6 GB at 0.25 GB/s.
    assert kernel.finished_s(task)[0] == pytest.approx(28.0)
    assert kernel.slowdown_by_cause(task)[0, Cause.DISK] == pytest.approx(18.0)


def test_the_disk_goes_by_outstanding_bytes() -> None:
    nodes = KernelNodes.of(1, cpu_cores=8.0, disk_bytes_per_s=1 * GB)
    shallow = TaskPhase(
        work_s=1.0, disk_read_bytes_per_s=1 * GB, disk_operation_bytes=4096.0, disk_queue_depth=32.0
    )
    deep = TaskPhase(
        work_s=1.0, disk_read_bytes_per_s=1 * GB, disk_operation_bytes=1048576.0, disk_queue_depth=8.0
    )
    kernel, profiles = kernel_with(shallow, deep, nodes=nodes)
    rates = kernel.rate(kernel.start(TaskStarts.of(0, profiles)))
    assert rates[1] / rates[0] == pytest.approx(64.0)
    assert rates.sum() == pytest.approx(1.0)


def test_two_flows_share_a_nic_and_the_link_is_named_as_the_cause() -> None:
    nodes = KernelNodes.of(
        2, cpu_cores=4.0, nic_up_bytes_per_s=1 * GB, link_bytes_per_s=[1.5 * GB], rack_up_link=0
    )
    phase = TaskPhase(work_s=10.0, cpu_cores=0.0, flows=(Flow(OWN_NIC_UP, 1 * GB), Flow(RACK_UP, 1 * GB)))
    kernel, profile = kernel_with(phase, nodes=nodes)
    tasks = kernel.start(TaskStarts.of([0, 0, 1], profile))
    # The NIC of node 0 gives each of its tasks 0.5; the rack link, 1.5 in all, is just enough: 0.5 for all.
    assert kernel.rate(tasks) == pytest.approx([0.5, 0.5, 0.5])
    run_out(kernel)
    assert kernel.finished_s(tasks) == pytest.approx([20.0, 20.0, 20.0])
    assert kernel.slowdown_by_cause(tasks)[:, Cause.NETWORK] == pytest.approx([10.0] * 3)
    assert kernel.utilisation()[:, Resource.NIC_UP] == pytest.approx([20 * GB, 10 * GB])


def test_a_broken_pcie_link_is_a_cause_of_its_own() -> None:
    nodes = KernelNodes.of(1, cpu_cores=4.0, pcie_bytes_per_s=[12 * GB, 12 * GB])
    phase = TaskPhase(work_s=10.0, flows=(Flow(own_root_complex(1), 6 * GB),))
    kernel, profile = kernel_with(phase, nodes=nodes)
    task = kernel.start(TaskStarts.of(0, profile))
    kernel.advance(2.0)
    kernel.set_link_capacity(nodes.root_complex_link(0, 1), 0.25)
    assert kernel.rate(task)[0] == pytest.approx(0.5)
    run_out(kernel)
    assert kernel.finished_s(task)[0] == pytest.approx(18.0)
    assert kernel.slowdown_by_cause(task)[0, Cause.PCIE] == pytest.approx(8.0)


def test_a_schedule_of_faults_happens_in_time_and_is_reported() -> None:
    schedule = KernelSchedule.of(
        [
            (6.0, ChangeKind.NODE_UP, 0, 0, 1.0),
            (4.0, ChangeKind.NODE_DOWN, 0, 0, 1.0),
            (7.0, ChangeKind.NODE_CAPACITY, 0, Resource.CPU, 0.5),
        ]
    )
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=4.0), schedule=schedule)
    task = kernel.start(TaskStarts.of(0, profile))
    down = kernel.advance(np.inf)
    assert (down.time_s.tolist(), down.task.tolist(), down.row.tolist()) == ([4.0], [1], [0])
    assert kernel.rate(task)[0] == 0.0
    run_out(kernel)
    assert kernel.finished_s(task)[0] == pytest.approx(17.0)
    lost = kernel.slowdown_by_cause(task)[0]
    assert (lost[Cause.NODE], lost[Cause.CPU]) == pytest.approx((2.0, 5.0))


def test_without_contention_everybody_runs_at_its_own_speed() -> None:
    nodes = KernelNodes.of(1, cpu_cores=1.0, nic_up_bytes_per_s=1.0)
    phase = TaskPhase(work_s=10.0, cpu_cores=4.0, flows=(Flow(OWN_NIC_UP, 1 * GB),))
    kernel, profile = kernel_with(phase, nodes=nodes, contention=False)
    tasks = kernel.start(TaskStarts.of([0] * 5, profile, speed=[1.0, 2.0, 1.0, 1.0, 1.0]))
    run_out(kernel)
    assert kernel.finished_s(tasks).tolist() == [10.0, 5.0, 10.0, 10.0, 10.0]


def test_tasks_on_one_gpu_slow_each_other() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=1.0, gpu_utilisation=0.6))
    apart = kernel.start(TaskStarts.of([0, 0], profile, gpu_mask=[1, 2]))
    assert kernel.rate(apart).tolist() == [1.0, 1.0]
    third = kernel.start(TaskStarts.of(0, profile, gpu_mask=1))
    assert kernel.rate(third)[0] < 1.0
    assert kernel.rate(apart)[1] == 1.0
    run_out(kernel)
    assert kernel.slowdown_by_cause(third)[0, Cause.GPU] > 0.0


def test_a_hundred_tasks_on_a_node_and_many_events_make_room() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=1.0, cpu_cores=1.0, flows=(Flow(OWN_NIC_DOWN, 1.0),)))
    tasks = kernel.start(TaskStarts.of([0] * 300, profile, start_s=np.linspace(0.0, 5.0, 300)))
    kernel.advance(np.inf, wake=Wake.NOTHING)
    assert np.isfinite(kernel.finished_s(tasks)).all()
    assert kernel.utilisation()[0, Resource.CPU] == pytest.approx(300.0)
    kernel.validate()


def test_thousands_of_starts_and_changes_at_one_instant_make_room() -> None:
    schedule = KernelSchedule.of([(1.0, ChangeKind.NODE_CAPACITY, 0, Resource.CPU, 1.0)] * 1000)
    kernel, profile = kernel_with(
        TaskPhase(work_s=1.0, cpu_cores=0.0),
        nodes=KernelNodes.of(3, cpu_cores=1.0),
        schedule=schedule,
    )
    kernel.start(TaskStarts.of(np.arange(3000) % 3, profile, start_s=1.0))
    events = kernel.advance(np.inf, wake=Wake.NOTHING)
    assert np.bincount(events.kind).tolist() == [1000, 3000, 0, 0, 0, 3000]
    assert events.time_s[-1] == 2.0
    kernel.validate()


def test_stopping_frees_the_node_and_only_once() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=4.0))
    tasks = kernel.start(TaskStarts.of([0, 0, 0], profile, start_s=[0.0, 0.0, 50.0]))
    kernel.advance(2.0)
    kernel.stop(tasks[1:])
    kernel.validate()
    assert kernel.running(0).tolist() == [tasks[0]]
    run_out(kernel)
    assert kernel.finished_s(tasks).tolist() == [11.0, 2.0, 2.0]
    with pytest.raises(StateConflict, match="ended"):
        kernel.stop(tasks[:1])


def test_reading_changes_nothing() -> None:
    def end(*, look: bool) -> bytes:
        kernel, profile = kernel_with(
            TaskPhase(work_s=9.7, cpu_cores=1.3, dram_bytes_per_s=1 * GB, dram_exposed=0.3),
            nodes=KernelNodes.of(1, cpu_cores=4.0, dram_bytes_per_s=5 * GB),
        )
        tasks = kernel.start(TaskStarts.of([0] * 7, profile, start_s=np.linspace(0.0, 3.0, 7)))
        for step in range(1, 30):
            kernel.advance(0.37 * step, wake=Wake.NOTHING)
            if look:
                kernel.progress(tasks)
                kernel.slowdown_by_cause(tasks)
                kernel.utilisation()
                kernel.rate(tasks)
                kernel.validate()
        kernel.advance(np.inf, wake=Wake.NOTHING)
        return kernel.finished_s(tasks).tobytes()

    assert end(look=True) == end(look=False)


def test_bad_input_is_refused_by_name() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=1.0))
    with pytest.raises(InvalidInput, match="node row 5"):
        kernel.start(TaskStarts.of(5, profile))
    with pytest.raises(InvalidInput, match="profile 7"):
        kernel.start(TaskStarts.of(0, 7))
    kernel.advance(10.0)
    with pytest.raises(InvalidInput, match="already"):
        kernel.start(TaskStarts.of(0, profile, start_s=1.0))
    with pytest.raises(InvalidInput, match="already"):
        kernel.advance(1.0)
    with pytest.raises(InvalidInput, match="task 99"):
        kernel.progress(99)
    with pytest.raises(InvalidInput, match="factor"):
        kernel.set_node_capacity(0, Resource.CPU, -1.0)
    with pytest.raises(InvalidInput, match="link"):
        kernel.add_profiles(KernelProfiles.from_phases([[TaskPhase(work_s=1.0, flows=(Flow(50, 1.0),))]]))
    with pytest.raises(InvalidInput, match="entry 0"):
        FluidKernel(
            KernelNodes.of(1, cpu_cores=1.0),
            schedule=KernelSchedule.of([(0.0, ChangeKind.NODE_UP, 3, 0, 1.0)]),
        )
    with pytest.raises(InvalidInput, match="work_s"):
        KernelProfiles.from_phases([[TaskPhase(work_s=-1.0)]])
    with pytest.raises(InvalidInput, match="no phase"):
        KernelProfiles.from_phases([[]])
    with pytest.raises(InvalidInput, match="speed"):
        TaskStarts.of(0, 0, speed=0.0)
    with pytest.raises(InvalidInput, match="disk_base"):
        KernelNodes.of(1, cpu_cores=1.0, disk_bytes_per_s=1.0, disk_base_bytes_per_s=2.0)


def test_validation_notices_what_does_not_add_up() -> None:
    kernel, profile = kernel_with(TaskPhase(work_s=10.0, cpu_cores=4.0))
    kernel.start(TaskStarts.of([0, 0], profile))
    kernel.advance(1.0)
    kernel.validate()
    kernel._state.slots["remaining"][0, 0] -= 1.0
    with pytest.raises(InternalError, match="account"):
        kernel.validate()
