"""The pace that others set a task, and how busy GPUs are: by hand, with the kernel's own accounts checked."""

import math

import numpy as np
import pytest

from stowplan.core.physics.vocabulary import Cause
from stowplan.errors import InvalidInput
from stowplan.simulate.kernel import (
    OWN_NIC_UP,
    Flow,
    KernelNodes,
    KernelProfiles,
    TaskPhase,
    TaskStarts,
)
from stowplan.simulate.kernel.kernel import FluidKernel


def kernel(
    *phases: TaskPhase, nic: float = math.inf, gpu_mask: tuple[int, ...] = ()
) -> tuple[FluidKernel, list[int]]:
    """One task of one phase per node, begun at 0."""
    made = FluidKernel(KernelNodes.of(len(phases), cpu_cores=4.0, nic_up_bytes_per_s=nic))
    profiles = made.add_profiles(KernelProfiles.from_phases([[phase] for phase in phases]))
    starts = TaskStarts.of(
        row=list(range(len(phases))),
        profile=profiles,
        cpu_weight=79.0,
        gpu_mask=list(gpu_mask) if gpu_mask else 0,
    )
    return made, made.start(starts).tolist()


def test_a_pace_holds_from_now_on_and_what_it_costs_counts_to_its_cause() -> None:
    made, ids = kernel(TaskPhase(work_s=30.0), TaskPhase(work_s=30.0))
    made.advance(10.0)
    made.set_pace(ids, [0.5, 1.0], [Cause.PCIE, Cause.NETWORK])
    assert made.rate(ids).tolist() == [0.5, 1.0]
    made.advance(20.0)
    assert made.progress(ids) * 30.0 == pytest.approx([15.0, 20.0])
    made.set_pace(ids[:1], 0.25, Cause.NETWORK)
    made.validate()
    made.advance(math.inf)
    made.advance(math.inf)
    assert made.finished_s(ids) == pytest.approx([20.0 + 15.0 / 0.25, 30.0])
    lost = made.slowdown_by_cause(ids)
    assert lost[0, Cause.PCIE] == pytest.approx(5.0)
    assert lost[0, Cause.NETWORK] == pytest.approx(45.0)
    assert lost[1].sum() == pytest.approx(0.0)
    made.validate()


def test_a_slower_pace_sends_less() -> None:
    made, ids = kernel(TaskPhase(work_s=30.0, flows=(Flow(OWN_NIC_UP, 8.0),)), nic=10.0)
    usage, capacity = made.link_use()
    assert (usage[0], capacity[0]) == (8.0, 10.0)
    made.set_pace(ids, 0.5, Cause.NETWORK)
    assert made.link_use()[0][0] == pytest.approx(4.0)
    made.validate()


def test_a_link_that_is_full_holds_below_the_pace() -> None:
    made, ids = kernel(TaskPhase(work_s=30.0, flows=(Flow(OWN_NIC_UP, 20.0),)), nic=10.0)
    made.set_pace(ids, 0.8, Cause.NETWORK)
    assert made.rate(ids) == pytest.approx([0.5])
    made.set_pace(ids, 0.25, Cause.NETWORK)
    assert made.rate(ids) == pytest.approx([0.25])
    made.validate()


def test_memory_grows_with_the_work_whatever_the_pace() -> None:
    made, ids = kernel(TaskPhase(work_s=10.0, anon_bytes=1000.0))
    made.advance(5.0)
    made.set_pace(ids, 0.5, Cause.NETWORK)
    assert made.memory_bytes()[0, 0] == pytest.approx(500.0)
    made.advance(10.0)
    made.set_pace(ids, 1.0, Cause.NETWORK)
    assert made.memory_bytes()[0, 0] == pytest.approx(750.0)
    made.validate()


def test_gpus_are_busy_as_the_work_goes_on() -> None:
    phase = TaskPhase(work_s=10.0, gpu_utilisation=0.5)
    made, ids = kernel(phase, phase, gpu_mask=(0b1, 0b111))
    made.advance(4.0)
    assert made.gpu_seconds() == pytest.approx([2.0, 6.0])
    made.set_pace(ids, 0.5, Cause.NETWORK)
    made.advance(8.0)
    assert made.gpu_seconds() == pytest.approx([3.0, 9.0])


def test_a_task_that_has_not_begun_begins_at_its_pace() -> None:
    made = FluidKernel(KernelNodes.of(1, cpu_cores=4.0))
    profile = made.add_profiles(KernelProfiles.from_phases([[TaskPhase(work_s=10.0)]]))
    ids = made.start(TaskStarts.of(row=[0], profile=profile, start_s=5.0, cpu_weight=79.0))
    made.set_pace(ids, 0.5, Cause.NETWORK)
    made.advance(math.inf)
    assert made.finished_s(ids) == pytest.approx([25.0])


@pytest.mark.parametrize("pace", [0.0, -1.0, math.nan, math.inf])
def test_a_pace_that_is_none_is_refused(pace: float) -> None:
    made, ids = kernel(TaskPhase(work_s=10.0))
    with pytest.raises(InvalidInput, match="pace"):
        made.set_pace(ids, pace, Cause.NETWORK)
    with pytest.raises(InvalidInput, match="cause"):
        made.set_pace(ids, 1.0, 99)
    assert np.array_equal(made.rate(ids), [1.0])
