"""Memory, PCIe and faults: what a reading means, and what it does not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.domain import Gpu, Hardware, Node, Resources
from stowplan.core.semantics import (
    UNKNOWN_ROOT,
    DeviceDistance,
    DeviceKind,
    FaultCounters,
    FaultKind,
    LinkHealth,
    MemoryRule,
    PcieDevice,
    Quality,
    RootComplexFit,
    device_distance,
    devices_by_root_complex,
    fault_rates,
    free_gpus_by_root_complex,
    link_state,
    memory_values,
    root_complex_fit,
    root_complexes_of,
)
from stowplan.errors import InvalidInput
from tests.unit.semantics.cases import GIB, RULE, START, later, memory

RULES = MemoryRule()


# ---- memory ----


def test_working_set_and_cache() -> None:
    found = memory_values(memory(), RULES)
    assert found.working_set_bytes.known == 7.0 * GIB
    assert found.anon_bytes.known == 4.0 * GIB
    assert found.cache_share.known == pytest.approx(0.55)
    assert found.working_set_share.known == pytest.approx(7.0 / 16.0)
    assert found.is_cache_heavy.known == 0.0
    assert all(value.quality is Quality.PRESENT for value in found.values)


@pytest.mark.parametrize(("inactive_gib", "heavy"), [(4.4, 0.0), (4.5, 1.0), (5.5, 1.0)])
def test_cache_is_heavy_above_1_8_times_the_working_set(inactive_gib: float, heavy: float) -> None:
    found = memory_values(memory(inactive_file=inactive_gib), RULES)
    assert found.is_cache_heavy.known == heavy
    assert (1.8 * (10.0 - inactive_gib) < 10.0) == (heavy == 1.0)


def test_all_cache_and_no_memory() -> None:
    only_cache = memory(current=5.5, anon=0.0, kernel=0.0, inactive_file=5.5)
    assert memory_values(only_cache, RULES).is_cache_heavy.known == 1.0
    nothing = memory(current=0.0, anon=0.0, file=0.0, kernel=0.0, inactive_file=0.0)
    found = memory_values(nothing, RULES)
    assert found.is_cache_heavy.known == 0.0
    assert found.cache_share.quality is Quality.MISSING
    assert found.working_set_bytes.known == 0.0


@pytest.mark.parametrize("amounts", [{"current": 12.0}, {"current": 8.0}, {"anon": 8.0}])
def test_two_files_that_disagree_give_no_value(amounts: dict[str, float]) -> None:
    found = memory_values(memory(**amounts), RULES)
    for value in found.values:
        assert value.quality is Quality.IMPOSSIBLE
        assert value.broken_bound.startswith("|memory.current − memory.stat| ≤")
        assert value.known is None
    lenient = replace(RULES, tolerance_share=0.5)
    assert memory_values(memory(**amounts), lenient).current_bytes.quality is Quality.PRESENT


def test_a_part_that_was_not_read_is_no_disagreement() -> None:
    found = memory_values(memory(kernel=None, current=12.0), RULES)
    assert found.working_set_bytes.known == 9.0 * GIB
    assert memory_values(memory(kernel=None, anon=9.0), RULES).current_bytes.quality is Quality.IMPOSSIBLE
    blind = memory_values(memory(inactive_file=None), RULES)
    assert blind.working_set_bytes.quality is Quality.MISSING
    assert blind.is_cache_heavy.quality is Quality.MISSING
    assert blind.cache_share.quality is Quality.PRESENT
    assert memory_values(memory(limit=None), RULES).working_set_share.quality is Quality.MISSING
    assert memory_values(memory(current=None), RULES).cache_share.quality is Quality.MISSING


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["current", "anon", "file", "inactive_file", "kernel"])
def test_amounts_that_cannot_be(name: str, amount: float) -> None:
    found = memory_values(memory(**{name: amount}), RULES)
    assert all(value.quality is Quality.IMPOSSIBLE for value in found.values)


def test_more_inactive_cache_than_cache() -> None:
    assert memory_values(memory(inactive_file=8.0), RULES).values[0].broken_bound == "inactive_file ≤ file"


@pytest.mark.parametrize(
    ("name", "number"), [("cache_heavy_ratio", 1.0), ("tolerance_share", -0.1), ("tolerance_bytes", math.inf)]
)
def test_memory_rules_without_meaning_are_refused(name: str, number: float) -> None:
    with pytest.raises(InvalidInput, match=f"MemoryRule.{name}"):
        MemoryRule(**{name: number})


# ---- links ----

GPU = PcieDevice(
    subject="node-1",
    taken=START,
    address="0000:21:00.0",
    kind=DeviceKind.GPU,
    path=("pci0000:20", "0000:20:01.0"),
    numa_node=0,
    speed_gt_s=16.0,
    width=16,
    most_speed_gt_s=16.0,
    most_width=16,
    slot_most_speed_gt_s=16.0,
    slot_most_width=16,
    is_busy=True,
)


@pytest.mark.parametrize(
    ("now", "health", "share"),
    [
        ({}, LinkHealth.FULL, 1.0),
        ({"width": 8}, LinkHealth.NARROW, 0.5),
        ({"speed_gt_s": 8.0}, LinkHealth.SLOW, 0.5),
        ({"speed_gt_s": 2.5, "is_busy": False}, LinkHealth.RESTING, 1.0),
        ({"speed_gt_s": 2.5, "is_busy": None}, LinkHealth.RESTING, 1.0),
        ({"width": 4, "speed_gt_s": 8.0}, LinkHealth.NARROW_AND_SLOW, 0.125),
        ({"width": 8, "speed_gt_s": 2.5, "is_busy": False}, LinkHealth.NARROW, 0.5),
        ({"width": 0}, LinkHealth.DOWN, 0.0),
        ({"width": 8, "slot_most_width": 8}, LinkHealth.FULL, 1.0),  # a slot of eight lanes is no fault
        ({"slot_most_width": None, "slot_most_speed_gt_s": None}, LinkHealth.FULL, 1.0),
        ({"width": None}, LinkHealth.UNKNOWN, None),
        ({"speed_gt_s": None}, LinkHealth.UNKNOWN, None),
        ({"most_width": None}, LinkHealth.UNKNOWN, None),
        ({"most_speed_gt_s": None}, LinkHealth.UNKNOWN, None),
        ({"width": 32}, LinkHealth.UNKNOWN, None),
        ({"width": -1}, LinkHealth.UNKNOWN, None),
        ({"width": math.nan}, LinkHealth.UNKNOWN, None),
        ({"speed_gt_s": 7.0}, LinkHealth.UNKNOWN, None),
    ],
)
def test_links(now: dict[str, object], health: LinkHealth, share: float | None) -> None:
    state = link_state(replace(GPU, **now))
    assert state.health is health
    assert state.share.known == share
    assert share is not None or state.share.reason


def test_bandwidth_of_a_link() -> None:
    assert link_state(GPU).bytes_per_s.known == pytest.approx(31.5e9, rel=0.01)  # PCIe 4 × 16
    assert link_state(replace(GPU, speed_gt_s=8.0)).bytes_per_s.known == pytest.approx(15.75e9, rel=0.01)
    assert link_state(replace(GPU, speed_gt_s=2.5, width=1)).bytes_per_s.known == pytest.approx(250e6)
    assert link_state(replace(GPU, width=33)).bytes_per_s.quality is Quality.IMPOSSIBLE


# ---- root complexes ----


def at(*path: str, numa: int | None = 0) -> PcieDevice:
    return replace(GPU, path=path, numa_node=numa)


def test_what_traffic_between_devices_crosses() -> None:
    switch = ("pci0000:20", "port-1", "switch-up")
    assert device_distance(at(*switch, "down-1"), at(*switch, "down-2")) is DeviceDistance.SAME_SWITCH
    cascaded = at(*switch, "down-2", "switch-up-2", "down-3")
    assert device_distance(at(*switch, "down-1"), cascaded) is DeviceDistance.SAME_ROOT_COMPLEX
    other_port = at("pci0000:20", "port-2")
    assert device_distance(at("pci0000:20", "port-1"), other_port) is DeviceDistance.SAME_ROOT_COMPLEX
    assert device_distance(at("pci0000:20"), at("pci0000:40")) is DeviceDistance.SAME_NUMA_NODE
    assert device_distance(at("pci0000:20"), at("pci0000:40", numa=1)) is DeviceDistance.ACROSS
    assert device_distance(at(numa=None), at(numa=None)) is DeviceDistance.ACROSS
    assert device_distance(at("a", numa=-1), at("b", numa=-1)) is DeviceDistance.ACROSS


def test_sets_of_devices() -> None:
    nic = replace(GPU, kind=DeviceKind.NIC, address="0000:22:00.0")
    other, lost = at("pci0000:00", "port"), at()
    sets = devices_by_root_complex([GPU, other, lost, nic])
    assert list(sets) == ["pci0000:00", "pci0000:20"]
    assert sets["pci0000:20"] == (GPU, nic)
    assert devices_by_root_complex([]) == {}


def node(name: str, *roots: str) -> Node:
    gpus = tuple(Gpu("A100", root) for root in roots)
    return Node(name, Resources({"pods": 10}), hardware=Hardware(gpus=gpus))


def test_gpus_are_counted_by_root_complex() -> None:
    nodes = [node("a", "r2", "r1", "r1", "r2"), None, node("b", "r1", "", "r1")]
    roots, names = root_complexes_of(nodes)
    assert roots.tolist() == [[1, 0, 0, 1], [UNKNOWN_ROOT] * 4, [0, UNKNOWN_ROOT, 0, UNKNOWN_ROOT]]
    assert names == (("r1", "r2"), (), ("r1",))
    free = np.array([[1000, 1000, 500, 0], [-1] * 4, [1000, 1000, 1000, -1]])
    assert free_gpus_by_root_complex(free, roots).tolist() == [[1, 1, 0], [0, 0, 0], [2, 0, 1]]
    assert free_gpus_by_root_complex(free, roots, milli=500).tolist() == [[2, 1, 0], [0, 0, 0], [2, 0, 1]]
    usable = np.ones_like(free, dtype=np.bool_)
    usable[2, 0] = False
    assert free_gpus_by_root_complex(free, roots, usable=usable)[2].tolist() == [1, 0, 1]


def test_candidates_are_counted_against_what_is_asked() -> None:
    counts = np.array([[2, 2, 0], [4, 0, 0], [1, 0, 0], [2, 0, 2], [0, 0, 1], [2, 0, 1]])
    fit = [RootComplexFit(each) for each in root_complex_fit(counts, 4).tolist()]
    assert fit == [
        RootComplexFit.SPREAD,  # four are free, but not of one root complex
        RootComplexFit.TOGETHER,
        RootComplexFit.TOO_FEW,
        RootComplexFit.UNKNOWN,
        RootComplexFit.TOO_FEW,
        RootComplexFit.TOO_FEW,
    ]
    assert (root_complex_fit(counts, 1) == RootComplexFit.TOGETHER).all()
    assert root_complex_fit(np.zeros((0, 1), np.int64), 2).shape == (0,)
    assert root_complex_fit(np.zeros((1, 1), np.int64), 2).tolist() == [RootComplexFit.TOO_FEW]
    with pytest.raises(InvalidInput, match="0 GPUs"):
        root_complex_fit(counts, 0)
    with pytest.raises(InvalidInput, match="must be the same"):
        free_gpus_by_root_complex(np.zeros((1, 2), np.int64), np.zeros((2, 1), np.int64))


def test_a_cluster_without_gpus() -> None:
    roots, _ = root_complexes_of([node("a"), node("b")])
    counts = free_gpus_by_root_complex(np.zeros((2, 0), np.int64), roots)
    assert root_complex_fit(counts, 1).tolist() == [RootComplexFit.TOO_FEW] * 2


# ---- faults ----


def test_fault_rates() -> None:
    before = FaultCounters(
        subject="n",
        taken=START,
        counts={FaultKind.OOM_KILL: 3, FaultKind.NVME_ERROR: 100, FaultKind.BLOCK_ERROR: 7},
        missing={"hung_tasks": "no tracepoint"},
    )
    counts = {FaultKind.OOM_KILL: 3, FaultKind.NVME_ERROR: 110, FaultKind.BLOCK_ERROR: 1}
    rates = fault_rates(before, replace(before, taken=later(START, 5.0), counts=counts), rule=RULE)
    assert set(rates) == set(FaultKind)
    assert rates[FaultKind.OOM_KILL].known == 0.0
    assert rates[FaultKind.NVME_ERROR].known == 2.0
    assert "started anew" in rates[FaultKind.BLOCK_ERROR].reason
    assert "no tracepoint" in rates[FaultKind.HUNG_TASK].reason
    assert rates[FaultKind.TCP_RETRANSMIT].quality is Quality.MISSING
    broken = fault_rates(before, replace(before, counts={FaultKind.OOM_KILL: -1}), rule=RULE)
    assert broken[FaultKind.OOM_KILL].known is None
