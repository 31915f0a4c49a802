"""Where gangs go: the narrowest part that takes them, the fullest of those, and when they wait.

Two racks of two nodes with four GPUs on each of two root complexes; worked out by hand.
"""

from collections.abc import Mapping

import numpy as np
import pytest

from stowplan.core.domain import (
    RACK_LABEL,
    ZONE_LABEL,
    BoundPod,
    ClusterState,
    Gang,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    freeze_labels,
)
from stowplan.core.engine import CycleReport, Engine
from stowplan.core.policy import make_policy
from stowplan.errors import InvalidInput

ROOTS = ("a",) * 4 + ("b",) * 4
ALL = tuple(range(8))
Used = Mapping[str, tuple[int, ...]]
THREE_FREE: Used = {"r1x": (0, 4), "r1y": (0, 4), "r2x": (0, 4), "r2y": (0, 4)}  # on every root complex


def cluster(
    used: Mapping[str, tuple[int, ...]] | None = None, roots: tuple[str, ...] = ROOTS
) -> ClusterState:
    """Nodes r1x, r1y, r2x, r2y; `used` names the GPUs that are taken."""
    state = ClusterState()
    hardware = Hardware(gpus=tuple(Gpu("g", root) for root in roots))
    for name in ("r1x", "r1y", "r2x", "r2y"):
        labels = freeze_labels({ZONE_LABEL: "z", RACK_LABEL: name[:2]})
        resources = Resources({"cpu": 64_000, "memory": 2**38, "pods": 110})
        state.apply(NodeSet(Node(name, resources, labels, hardware=hardware)))
    for name, gpus in (used or {}).items():
        for gpu in gpus:
            state.apply(PodBound(BoundPod(f"{name}/{gpu}", shape(1), (gpu,)), name))
    return state


def shape(gpus: int, milli: int = 1000) -> PodShape:
    return PodShape(
        requests=Resources({"cpu": 4000, "memory": 2**33}),
        score_cpu_milli=4000,
        score_memory_bytes=2**33,
        gpu=GpuRequest(gpus, milli),
    )


def gang(size: int, gpus: int = 1, name: str = "w") -> list[PendingTask]:
    work = WorkProfile((Phase(1.0),))
    tasks = tuple(Task(f"t{i}", shape(gpus), work, 1.0, gang=Gang("g", size)) for i in range(size))
    progress = WorkflowProgress(name, Workflow(name, tasks), 0.0)
    return [PendingTask(f"{name}/{i}", progress, i, 0.0) for i in progress.start()]


def alone(gpus: int, milli: int = 1000) -> list[PendingTask]:
    progress = WorkflowProgress(
        "a", Workflow("a", (Task("t", shape(gpus, milli), WorkProfile(()), 1.0),)), 0.0
    )
    return [PendingTask("a/t", progress, i, 0.0) for i in progress.start()]


def cycle(
    state: ClusterState, tasks: list[PendingTask], now_s: float = 0.0, **options: object
) -> CycleReport:
    return Engine(state, make_policy("gangs", **options), rng=np.random.default_rng(0)).cycle(now_s, tasks)


def places(report: CycleReport) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((outcome.node_name, outcome.gpus) for _, outcome in report.placed)


def nodes(report: CycleReport) -> list[str]:
    return [name for name, _ in places(report)]


def test_a_gang_goes_into_the_root_complex_that_it_just_fills() -> None:
    state = cluster({"r1x": (0,), "r2y": (0, 1, 4)})
    assert places(cycle(state, gang(3))) == [("r1x", (1,)), ("r1x", (2,)), ("r1x", (3,))]
    assert places(cycle(state, gang(2, name="v"))) == [("r2y", (2,)), ("r2y", (3,))]


def test_pods_of_several_gpus_are_of_one_root_complex_too() -> None:
    state = cluster({"r1x": (0, 4, 5), "r1y": (0,), "r2x": (0,), "r2y": (0,)})
    assert places(cycle(state, gang(1, gpus=2))) == [("r1x", (6, 7))]


def test_without_a_root_complex_it_takes_one_node_and_without_a_node_one_rack() -> None:
    # No root complex has four free; r2y has six in all, r2x seven.
    state = cluster({"r1x": (0, 1, 4, 5), "r1y": (0, 1, 4, 5), "r2x": (0,), "r2y": (0, 4)})
    assert nodes(cycle(state, gang(6))) == ["r2y"] * 6
    # Rack 2 has 13 free, rack 1 eight.
    assert nodes(cycle(cluster({"r1x": (0,), "r2x": ALL, "r2y": ()}), gang(10))) == ["r1x"] * 2 + ["r1y"] * 8


def test_over_two_nodes_the_rest_goes_where_it_just_fits() -> None:
    state = cluster({"r1x": (0, 1, 2), "r1y": (), "r2x": ALL, "r2y": ALL})
    assert nodes(cycle(state, gang(9))) == ["r1x"] + ["r1y"] * 8


def test_workers_of_a_gang_share_root_complexes_where_they_must_share_a_node() -> None:
    state = cluster({"r1x": (4, 5, 6, 7), "r1y": (0,), "r2x": ALL, "r2y": ALL})
    report = cycle(state, gang(11))
    assert places(report) == [*(("r1x", (g,)) for g in range(4)), *(("r1y", (g,)) for g in range(1, 8))]


def test_without_awareness_of_the_network_it_takes_few_root_complexes_wherever_they_are() -> None:
    state = cluster({"r1x": (0, 1), "r2y": (0, 1, 2)})
    report = cycle(state, gang(5), network=False)
    assert places(report) == [*(("r1x", (gpu,)) for gpu in (4, 5, 6, 7)), ("r2y", (3,))]


def test_without_awareness_of_root_complexes_it_takes_the_fullest_node() -> None:
    state = cluster({"r1x": (0, 4), "r2y": (0, 1, 4)})
    assert nodes(cycle(state, gang(5), root_complexes=False)) == ["r2y"] * 5


def test_without_any_awareness_it_is_kube_scheduler() -> None:
    tasks = gang(6)
    plain = Engine(cluster(), make_policy("kube-scheduler"), rng=np.random.default_rng(0)).cycle(0.0, tasks)
    assert places(cycle(cluster(), tasks, root_complexes=False, network=False)) == places(plain)
    assert len(set(nodes(plain))) == 4


def test_a_gang_waits_for_a_level_that_the_cluster_has_but_not_longer_than_told() -> None:
    used: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("r1x", "r1y", "r2x", "r2y"), (0, 4)
    )  # three free on every root complex
    report = cycle(cluster(used), gang(4), now_s=99.0, patience_s=100.0)
    assert [outcome.reason for _, outcome in report.waiting] == [
        "gang 'g' of 4: the policy prefers to wait"
    ] * 4
    assert len(set(nodes(cycle(cluster(used), gang(4), now_s=100.0, patience_s=100.0)))) == 1
    # Eight GPUs are of no root complex anywhere: nothing to wait for.
    assert nodes(cycle(cluster({"r1x": (0,)}), gang(8), patience_s=100.0)) != []


def test_one_gang_that_waits_does_not_hold_up_another_of_equal_tasks() -> None:
    used = THREE_FREE
    report = cycle(cluster(used), [*gang(4, name="w"), *gang(3, name="v")], patience_s=100.0)
    assert sorted(task.key for task, _ in report.placed) == ["v/0", "v/1", "v/2"]


def test_a_pod_alone_breaks_up_as_little_as_it_can() -> None:
    state = cluster({"r1y": (0,), "r2x": (0, 1, 5)})
    assert places(cycle(state, alone(1))) == [("r2x", (2,))]
    state = cluster({"r1y": (0,)})
    state.apply(PodBound(BoundPod("s", shape(1, 400), (6,)), "r2y"))
    assert places(cycle(state, alone(1, 500))) == [("r2y", (6,))]


def test_gpus_that_hang_who_knows_where_are_no_root_complex() -> None:
    state = cluster({"r1x": (0,)}, roots=("",) * 8)
    assert nodes(cycle(state, gang(4))) == ["r1x"] * 4


def test_a_negative_patience_is_refused() -> None:
    with pytest.raises(InvalidInput, match="patience_s"):
        make_policy("gangs", patience_s=-1.0)
