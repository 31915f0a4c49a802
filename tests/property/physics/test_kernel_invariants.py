"""Random clusters, loads and faults: all invariants at every instant; every task ends; seeds repeat."""

import numpy as np
import pytest

from stowplan.simulate.kernel import (
    OWN_NIC_DOWN,
    OWN_NIC_UP,
    RACK_DOWN,
    RACK_UP,
    ChangeKind,
    Flow,
    KernelNodes,
    KernelProfiles,
    KernelSchedule,
    TaskPhase,
    TaskStarts,
    Wake,
    own_root_complex,
)
from stowplan.simulate.kernel.kernel import FluidKernel


def random_nodes(random: np.random.Generator) -> tuple[KernelNodes, int]:
    """One to seven nodes with up to three fabric links."""
    count, links = int(random.integers(1, 8)), int(random.integers(0, 4))
    fabric = (
        {
            "link_bytes_per_s": random.uniform(2e8, 3e9, links),
            "rack_up_link": random.integers(-1, links, count),
            "rack_down_link": random.integers(-1, links, count),
        }
        if links
        else {}
    )
    nodes = KernelNodes.of(
        count,
        cpu_cores=random.choice([2.0, 4.0, 8.0], count),
        memory_bytes=random.uniform(4e9, 3e10, count),
        dram_bytes_per_s=random.uniform(1e10, 4e10, count),
        disk_bytes_per_s=random.uniform(2e8, 6e8, count),
        disk_base_bytes_per_s=random.uniform(5e7, 2e8, count),
        disk_bucket_bytes=random.uniform(0.0, 1e10, count),
        disk_operations_per_s=random.uniform(1e3, 2e4, count),
        nic_up_bytes_per_s=1.25e9,
        nic_down_bytes_per_s=1.25e9,
        pcie_bytes_per_s=[1.2e10, 1.2e10],
        **fabric,
    )
    return nodes, links


def random_phase(random: np.random.Generator, links: int) -> TaskPhase:
    """Anything from an empty phase to one that presses on everything."""
    codes = [OWN_NIC_UP, OWN_NIC_DOWN, RACK_UP, RACK_DOWN, own_root_complex(0), own_root_complex(1)]
    ways = [*codes, *range(links)]
    flows = tuple(
        Flow(int(random.choice(ways)), float(random.uniform(1e7, 8e8)), float(random.choice([1.0, 2.0])))
        for _ in range(int(random.integers(0, 5)))
    )
    return TaskPhase(
        work_s=0.0 if random.random() < 0.1 else float(random.uniform(1.0, 20.0)),
        cpu_cores=float(random.choice([0.0, 0.5, 1.0, 2.0, 4.0])),
        cpu_burst_cores=float(random.choice([0.0, 3.0])),
        dram_bytes_per_s=float(random.uniform(0.0, 1.5e10) * (random.random() < 0.6)),
        dram_exposed=float(random.uniform(0.0, 0.5) * (random.random() < 0.5)),
        disk_read_bytes_per_s=float(random.uniform(0.0, 2e8) * (random.random() < 0.5)),
        disk_write_bytes_per_s=float(random.uniform(0.0, 1e8) * (random.random() < 0.4)),
        disk_queue_depth=float(random.choice([1.0, 8.0, 32.0])),
        cache_bytes=float(random.uniform(0.0, 4e9)),
        cache_hit=0.7,
        anon_bytes=float(random.uniform(0.0, 6e9)),
        gpu_utilisation=0.5,
        flows=flows,
    )


def random_faults(random: np.random.Generator, nodes: int) -> KernelSchedule:
    """Some faults before 100 s; at 150 s everything is whole again."""
    entries = [
        (
            float(random.uniform(0.0, 100.0)),
            ChangeKind(int(random.integers(0, 3))),
            int(random.integers(nodes)),
            int(random.integers(7)),
            float(random.choice([0.0, 0.05, 0.5, 1.0])),
        )
        for _ in range(8)
    ]
    entries += [(150.0, ChangeKind.NODE_UP, row, 0, 1.0) for row in range(nodes)]
    entries += [
        (150.0, ChangeKind.NODE_CAPACITY, row, column, 1.0) for row in range(nodes) for column in range(7)
    ]
    return KernelSchedule.of(entries)


def play(seed: int, *, validate: bool) -> bytes:
    """Run one random episode to its end; returns all events and finish times as bytes."""
    random = np.random.default_rng(seed)
    nodes, links = random_nodes(random)
    kernel = FluidKernel(nodes, schedule=random_faults(random, len(nodes)))
    phases = [[random_phase(random, links) for _ in range(int(random.integers(1, 4)))] for _ in range(12)]
    profiles = kernel.add_profiles(KernelProfiles.from_phases(phases))
    count = int(random.integers(5, 60))
    tasks = kernel.start(
        TaskStarts.of(
            random.integers(0, len(nodes), count),
            random.choice(profiles, count),
            start_s=np.where(random.random(count) < 0.3, np.nan, random.uniform(0.0, 60.0, count)),
            speed=random.uniform(0.5, 2.0, count),
            cpu_weight=random.choice([20.0, 79.0, 200.0], count),
            cpu_limit_cores=random.choice([0.5, 1.0, 2.0, np.inf], count),
            memory_limit_bytes=random.choice([2e9, 5e9, np.inf], count),
            memory_request_bytes=1e9,
            gpu_mask=random.integers(0, 4, count),
        )
    )
    story: list[bytes] = []
    while True:
        events = kernel.advance(np.inf, wake=Wake.SCHEDULER | Wake.PHASE_DONE)
        if validate:
            kernel.validate()
        if not len(events):
            break
        story += [column.tobytes() for column in (events.time_s, events.kind, events.task, events.row)]
        if random.random() < 0.1:
            running = np.concatenate([kernel.running(row) for row in range(len(nodes))])
            kernel.stop(running[:1])
    assert np.isfinite(kernel.finished_s(tasks)).all()
    assert kernel.statistics().unsettled == 0
    return b"".join([*story, kernel.finished_s(tasks).tobytes()])


@pytest.mark.parametrize("seed", range(25))
def test_every_invariant_holds_at_every_instant_and_looking_changes_nothing(seed: int) -> None:
    assert play(seed, validate=True) == play(seed, validate=False)
