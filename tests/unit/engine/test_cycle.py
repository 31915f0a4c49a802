"""The scheduling cycle: outcomes, live capacity, ties, explanations, and what happens when a policy fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.decoder import choose_gpus
from stowplan.core.domain import (
    AccessMode,
    BindingMode,
    BoundPod,
    ClusterState,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeSelectorTerm,
    NodeSet,
    Operator,
    PendingTask,
    PersistentVolume,
    PersistentVolumeClaim,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    PodVolume,
    Requirement,
    Resources,
    StorageClass,
    StorageSet,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    validate_state,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView
from stowplan.errors import InternalError, InvalidInput, StateConflict


@dataclass
class FixedPlan:
    """Orders and scores as told."""

    order: Sequence[int]
    score_of: NDArray[np.float64]
    breaks_ties_randomly: bool = False

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        del index, filters
        return self.score_of

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        del row
        return float(index)

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        del index
        return {"small": 0.5, "row": float(row)}


@dataclass
class FixedPolicy:
    """Takes tasks as they come and prefers high rows, unless told otherwise."""

    name: str = "fixed"
    order: Sequence[int] | None = None
    score_by_row: Mapping[int, float] = field(default_factory=dict[int, float])
    default_score: float | None = None
    breaks_ties_randomly: bool = False
    fails: bool = False

    def plan(self, view: CycleView) -> FixedPlan:
        if self.fails:
            raise InvalidInput("the model is gone")
        scores = np.arange(view.state.capacity, dtype=np.float64)
        if self.default_score is not None:
            scores[:] = self.default_score
        for row, score in self.score_by_row.items():
            scores[row] = score
        order = self.order if self.order is not None else range(len(view.pending))
        return FixedPlan(order, scores, self.breaks_ties_randomly)


def cluster(*cpu_milli: int, **more: object) -> ClusterState:
    state = ClusterState()
    for index, cpu in enumerate(cpu_milli):
        resources = Resources({"cpu": cpu, "memory": 2**33, "pods": 110})
        state.apply(NodeSet(Node(f"n{index}", resources, **more)))  # pyright: ignore[reportArgumentType]
    return state


def pending(*shapes: PodShape) -> list[PendingTask]:
    tasks = tuple(Task(f"t{i}", shape, WorkProfile((Phase(1.0),)), 1.0) for i, shape in enumerate(shapes))
    progress = WorkflowProgress("w", Workflow("w", tasks), 0.0)
    return [PendingTask(f"default/w-{i}", progress, i, 0.0) for i in progress.start()]


def cpu(milli: int, **more: object) -> PodShape:
    return PodShape(requests=Resources({"cpu": milli}), **more)  # pyright: ignore[reportArgumentType]


def engine(state: ClusterState, policy: FixedPolicy, *, seed: int = 7, **more: object) -> Engine:
    return Engine(state, policy, rng=np.random.default_rng(seed), **more)  # pyright: ignore[reportArgumentType]


def test_each_placement_is_subtracted_before_the_next() -> None:
    state = cluster(1000, 1000)
    report = engine(state, FixedPolicy()).cycle(0.0, pending(cpu(600), cpu(600), cpu(600)))
    assert [placed.node_name for _, placed in report.placed] == ["n1", "n0"]
    assert len(report.waiting) == 1
    task, wait = report.waiting[0]
    assert task.key == "default/w-2"
    assert wait.refused == {"NodeResourcesFit": 2}
    assert wait.reason == "0/2 nodes can take the pod: refused 2 by NodeResourcesFit"
    assert not report.infeasible
    validate_state(state)


def test_a_smaller_task_goes_past_one_that_waits() -> None:
    report = engine(cluster(1000), FixedPolicy()).cycle(0.0, pending(cpu(600), cpu(600), cpu(300)))
    assert [task.index for task, _ in report.placed] == [0, 2]
    assert [task.index for task, _ in report.waiting] == [1]


def test_the_order_is_the_plans() -> None:
    report = engine(cluster(1000), FixedPolicy(order=[2, 0, 1])).cycle(
        0.0, pending(cpu(1000), cpu(500), cpu(700))
    )
    assert [task.index for task, _ in report.placed] == [2]


def test_what_fits_no_node_is_infeasible_at_once_and_the_rest_runs_on() -> None:
    state = cluster(1000, 2000)
    report = engine(state, FixedPolicy()).cycle(0.0, pending(cpu(5000), cpu(1500), cpu(1500)))
    assert [task.index for task, _ in report.infeasible] == [0]
    assert report.infeasible[0][1].refused == {"NodeResourcesFit": 2}
    assert [task.index for task, _ in report.placed] == [1]
    assert [task.index for task, _ in report.waiting] == [2]


def test_a_cluster_without_nodes_says_so() -> None:
    report = engine(ClusterState(), FixedPolicy()).cycle(0.0, pending(cpu(1)))
    assert report.infeasible[0][1].reason == "the cluster has no nodes"


def test_capacity_that_comes_back_is_used() -> None:
    state = cluster(1000)
    scheduler = engine(state, FixedPolicy())
    first, second = pending(cpu(800), cpu(800))
    assert len(scheduler.cycle(0.0, [first, second]).placed) == 1
    state.apply(PodRemoved(first.key))
    assert [task.key for task, _ in scheduler.cycle(1.0, [second]).placed] == [second.key]


def test_capacity_that_another_scheduler_took_is_not_used() -> None:
    state = cluster(1000)
    scheduler = engine(state, FixedPolicy())
    assert len(scheduler.cycle(0.0, pending(cpu(100))).placed) == 1
    state.apply(PodBound(BoundPod("other/pod", cpu(850)), "n0"))
    task = pending(cpu(100))[0]
    later = PendingTask("default/later", task.progress, 0, 1.0)
    assert not scheduler.cycle(1.0, [later]).placed


def test_a_lost_placement_gives_its_resources_back() -> None:
    state = cluster(1000)
    scheduler = engine(state, FixedPolicy())
    task = pending(cpu(800))[0]
    scheduler.cycle(0.0, [task])
    lost = scheduler.forget(task.key, "the node is gone")
    assert (lost.key, lost.reason) == (task.key, "the node is gone")
    assert not state.requested.any()
    with pytest.raises(StateConflict, match="not bound"):
        scheduler.forget(task.key, "again")


def test_a_score_of_minus_infinity_means_wait() -> None:
    policy = FixedPolicy(default_score=-np.inf)
    report = engine(cluster(1000), policy).cycle(0.0, pending(cpu(1)))
    assert report.waiting[0][1].reason == "the policy prefers to wait"


def test_tasks_that_the_plan_leaves_out_wait() -> None:
    report = engine(cluster(1000), FixedPolicy(order=[1])).cycle(0.0, pending(cpu(1), cpu(1)))
    assert [task.index for task, _ in report.placed] == [1]
    assert "holds the task back" in report.waiting[0][1].reason


@pytest.mark.parametrize("order", [[0, 0], [2], [-1]])
def test_an_impossible_order_is_a_defect(order: list[int]) -> None:
    with pytest.raises(InternalError, match="twice or out of range"):
        engine(cluster(1000), FixedPolicy(order=order)).cycle(0.0, pending(cpu(1), cpu(1)))


def test_ties_go_to_the_lowest_row_or_to_the_generator() -> None:
    def chosen(*, random: bool, seed: int) -> list[str]:
        policy = FixedPolicy(default_score=1.0, breaks_ties_randomly=random)
        report = engine(cluster(*[100_000] * 8), policy, seed=seed).cycle(0.0, pending(*[cpu(1)] * 40))
        return [placed.node_name for _, placed in report.placed]

    assert chosen(random=False, seed=1) == ["n0"] * 40
    assert chosen(random=True, seed=1) == chosen(random=True, seed=1)
    assert chosen(random=True, seed=1) != chosen(random=True, seed=2)
    assert set(chosen(random=True, seed=1)) == {f"n{i}" for i in range(8)}


def storage_case() -> tuple[ClusterState, PodShape]:
    """Two nodes, one free volume that only n0 reaches, and a shape whose claim wants it."""
    state = cluster(1000, 1000)
    reached = NodeSelectorTerm(expressions=(Requirement("disk", Operator.EXISTS),))
    node = state.node(0)
    state.apply(NodeSet(Node(node.name, node.allocatable, (("disk", "ssd"),))))
    state.apply(
        StorageSet(StorageClass("local", "kubernetes.io/no-provisioner", BindingMode.WAIT_FOR_FIRST_CONSUMER))
    )
    mode = (AccessMode.READ_WRITE_ONCE,)
    state.apply(StorageSet(PersistentVolume("pv", 10, mode, storage_class="local", node_affinity=(reached,))))
    for name in ("a", "b"):
        state.apply(
            StorageSet(PersistentVolumeClaim("default", name, mode, request_bytes=5, storage_class="local"))
        )
    return state, cpu(1, volumes=(PodVolume("v", claim="a"),))


def test_a_volume_goes_to_one_pod_of_a_cycle_and_is_free_again_when_it_is_lost() -> None:
    state, first = storage_case()
    second = cpu(1, volumes=(PodVolume("v", claim="b"),))
    scheduler = engine(state, FixedPolicy())
    one, other = pending(first, second)
    report = scheduler.cycle(0.0, [one, other])
    assert [(task.key, placed.node_name) for task, placed in report.placed] == [(one.key, "n0")]
    assert report.placed[0][1].storage == (state.storage.volumes["pv"],)
    assert state.storage.volumes["pv"].claim == ("default", "a")
    assert report.infeasible[0][1].refused == {"VolumeBinding": 2}  # pods that end do not give volumes back
    scheduler.forget(one.key, "refused")
    assert [task.key for task, _ in scheduler.cycle(1.0, [other]).placed] == [other.key]


def test_the_volume_of_a_task_that_the_driver_took_away_itself_is_free_again() -> None:
    state, first = storage_case()
    before = state.storage.volumes["pv"]
    scheduler = engine(state, FixedPolicy())
    (task,) = pending(first)
    scheduler.cycle(0.0, [task])
    state.apply(PodRemoved(task.key))
    assert state.storage.volumes["pv"].claim == ("default", "a")
    scheduler.free_storage(task.key)
    assert state.storage.volumes["pv"] is before
    scheduler.free_storage(task.key)  # which reserves nothing any more


def test_what_the_driver_learned_since_is_not_undone() -> None:
    state, first = storage_case()
    scheduler = engine(state, FixedPolicy())
    (task,) = pending(first)
    scheduler.cycle(0.0, [task])
    confirmed = PersistentVolume("pv", 99, (AccessMode.READ_WRITE_ONCE,), claim=("default", "a"))
    state.apply(StorageSet(confirmed))
    scheduler.forget(task.key, "refused")
    assert state.storage.volumes["pv"] is confirmed


def test_a_task_that_the_policy_holds_back_does_not_hold_back_its_equals() -> None:
    class Picky(FixedPlan):
        def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
            return np.full(filters.feasible.shape, -np.inf if index == 0 else 0.0)

    class PickyPolicy(FixedPolicy):
        def plan(self, view: CycleView) -> FixedPlan:
            return Picky(range(len(view.pending)), np.zeros(view.state.capacity))

    report = engine(cluster(1000), PickyPolicy()).cycle(0.0, pending(cpu(1), cpu(1)))
    assert [task.index for task, _ in report.placed] == [1]
    assert report.waiting[0][1].reason == "the policy prefers to wait"


def test_an_infeasible_node_is_never_chosen_whatever_its_score() -> None:
    policy = FixedPolicy(score_by_row={0: 1e300})
    report = engine(cluster(10, 1000), policy).cycle(0.0, pending(cpu(500)))
    assert report.placed[0][1].node_name == "n1"


def test_an_explanation_tells_the_whole_decision() -> None:
    report = engine(cluster(100, 1000, 1000), FixedPolicy(), explains=True).cycle(0.0, pending(cpu(500)))
    placed = report.placed[0][1]
    explanation = placed.explanation
    assert explanation is not None
    assert (explanation.candidates, explanation.refused) == (2, {"NodeResourcesFit": 1})
    assert (explanation.runner_up, explanation.margin, explanation.score) == ("n1", 1.0, 2.0)
    assert explanation.contributions == (("row", 2.0), ("small", 0.5))
    assert explanation.in_words(placed.node_name) == (
        "fixed chose n2 of 2 candidates (refused: 1 by NodeResourcesFit): row +2, small +0.5; 1 ahead of n1"
    )


def test_the_only_candidate_has_no_runner_up() -> None:
    explanation = (
        engine(cluster(1000), FixedPolicy(), explains=True)
        .cycle(0.0, pending(cpu(1)))
        .placed[0][1]
        .explanation
    )
    assert explanation is not None
    assert explanation.runner_up is None
    assert explanation.margin is None


def test_a_failed_policy_is_replaced_visibly_or_its_error_is_the_drivers() -> None:
    broken = FixedPolicy(name="model", fails=True)
    report = engine(cluster(1000), broken, fallback=FixedPolicy(name="rule")).cycle(0.0, pending(cpu(1)))
    assert report.degraded is not None
    assert report.degraded.component == "policy model"
    assert report.degraded.used_instead == "rule"
    assert "the model is gone" in report.degraded.reason
    assert len(report.placed) == 1
    with pytest.raises(InvalidInput, match="gone"):
        engine(cluster(1000), broken).cycle(0.0, pending(cpu(1)))


def gpus(*roots: str) -> Hardware:
    return Hardware(gpus=tuple(Gpu("A100", root) for root in roots))


def test_shared_gpus_fill_the_fullest_that_still_fits() -> None:
    state = cluster(10_000, hardware=gpus("a", "a", "b"))
    tasks = pending(*(cpu(1, gpu=GpuRequest(1, milli)) for milli in (300, 600, 500, 400, 1000)))
    report = engine(state, FixedPolicy()).cycle(0.0, tasks)
    assert [placed.gpus for _, placed in report.placed] == [(0,), (0,), (1,), (1,), (2,)]
    assert state.gpu_free_milli[0].tolist() == [100, 100, 0]


def test_several_gpus_come_from_the_smallest_root_complex_that_has_enough() -> None:
    state = cluster(10_000, hardware=gpus("a", "a", "a", "b", "b"))
    assert choose_gpus(state, 0, GpuRequest(2)) == (3, 4)
    assert choose_gpus(state, 0, GpuRequest(3)) == (0, 1, 2)
    assert choose_gpus(state, 0, GpuRequest(4)) == (0, 1, 2, 3)
    with pytest.raises(InternalError, match="6 are needed"):
        choose_gpus(state, 0, GpuRequest(6))
