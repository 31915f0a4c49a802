"""Bid prices against a plain evaluation: worth of a node before and after, GPU by GPU, at the same prices."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
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
)
from stowplan.core.policy import CycleView
from stowplan.core.policy.nodes.bid_price import BidPrice
from stowplan.core.policy.nodes.gap_prices import LEVEL_MILLI, LEVELS, GapPrices
from stowplan.core.policy.nodes.outlook import Need, Outlook

GIB = 1 << 30
SEEDS = st.integers(0, 2**32 - 1)


def some_shape(rng: np.random.Generator) -> PodShape:
    gpu = None
    if rng.random() < 0.8:
        models = (("A",), ("B",), ())[int(rng.integers(3))]
        is_share = rng.random() < 0.6
        milli = int(rng.choice([160, 320, 470, 650, 810])) if is_share else 1000
        gpu = GpuRequest(1 if is_share else int(rng.integers(1, 4)), milli, models)
    cpu_milli, memory_gib = int(rng.integers(1, 9)) * 1000, int(rng.integers(1, 32))
    return PodShape(
        requests=Resources({"cpu": cpu_milli, "memory": memory_gib * GIB}),
        score_cpu_milli=cpu_milli,
        score_memory_bytes=memory_gib * GIB,
        gpu=gpu,
    )


def pending_task(shape: PodShape, name: str) -> PendingTask:
    workflow = Workflow(name, (Task("t", shape, WorkProfile((Phase(1.0),)), 1.0),))
    return PendingTask(name, WorkflowProgress(name, workflow, 0.0), 0, 0.0)


def feasible_rows(state: ClusterState, shape: PodShape) -> list[int]:
    return np.flatnonzero(CompiledFilters(state, shape).feasible).tolist()


def some_gpus(rng: np.random.Generator, state: ClusterState, shape: PodShape, row: int) -> tuple[int, ...]:
    if shape.gpu is None:
        return ()
    usable = np.flatnonzero(state.gpu_free_milli[row] >= shape.gpu.milli)
    return tuple(sorted(rng.permutation(usable)[: shape.gpu.count].tolist()))


def scene(rng: np.random.Generator) -> tuple[ClusterState, dict[PodShape, float]]:
    """Return a cluster with some pods, and the workload that they are from."""
    state = ClusterState()
    for number in range(8):
        gpus = tuple(Gpu(str(rng.choice(["A", "B"]))) for _ in range(1))
        gpus = gpus * int(rng.choice([0, 1, 2, 4]))
        cpu, memory = int(rng.integers(8, 48)) * 1000, int(rng.integers(32, 192)) * GIB
        resources = Resources({"cpu": cpu, "memory": memory, "pods": 50})
        state.apply(NodeSet(Node(f"n{number}", resources, hardware=Hardware(gpus=gpus))))
    workload = {some_shape(rng): float(rng.integers(1, 9)) for _ in range(12)}
    place_some(rng, state, workload, int(rng.integers(0, 16)))
    return state, workload


def place_some(
    rng: np.random.Generator, state: ClusterState, workload: Mapping[PodShape, float], many: int
) -> None:
    shapes = list(workload)
    for _ in range(many):
        shape = shapes[int(rng.integers(len(shapes)))]
        rows = feasible_rows(state, shape)
        if rows:
            row = rows[int(rng.integers(len(rows)))]
            pod = BoundPod(f"old{len(state.pods)}", shape, some_gpus(rng, state, shape, row))
            state.apply(PodBound(pod, state.node(row).name))


class PlainWorth:
    """What a node is worth, from the formula, one GPU after another."""

    def __init__(self, state: ClusterState, workload: Mapping[PodShape, float]) -> None:
        outlook = Outlook.of(workload)
        assert outlook is not None
        self.needs = outlook.needs
        gaps, wholes = [0] * (LEVELS + 1), [0] * (state.gpu_free_milli.shape[1] + 1)
        free_of: Counter[str] = Counter()
        for row in range(state.capacity):
            free = [max(int(milli), 0) for milli in state.gpu_free_milli[row]]
            wholes[free.count(1000)] += 1
            for milli in free:
                if milli < 1000:
                    gaps[milli // LEVEL_MILLI] += 1
            if state.gpu_model_ids[row] >= 0:
                free_of[state.gpu_models[state.gpu_model_ids[row]]] += sum(free)
        total = sum(free_of.values())
        self.prices = GapPrices(outlook.rates, len(wholes) - 1, {})
        self.prices.adjust(np.array(gaps), np.array(wholes), total)
        self.load = dict.fromkeys(state.gpu_models, 0.0)
        for models, share in outlook.shares.items():
            accepted = [model for model in self.load if not models or model in models]
            for model in accepted:
                self.load[model] += share * total / (sum(free_of[other] for other in accepted) + 1000)

    def of(self, model: str | None, free: list[int], left: dict[str, int]) -> float:
        worth = float(self.prices.whole_worth[free.count(1000)])
        worth += sum(float(self.prices.gap_worth[milli // LEVEL_MILLI]) for milli in free if milli < 1000)
        if model is not None:
            worth += 0.3 * self.load[model] * sum(free)
        return worth - 0.03 * sum(self.stranded(need, sum(free), left[need.name]) for need in self.needs)

    @staticmethod
    def stranded(need: Need, free: int, left: int) -> float:
        spread = max(need.deviation * math.sqrt(free), 1e-9)
        z = (left - need.mean * free) / spread
        if z > 6.0:
            return 0.0
        density, tail = math.exp(-z * z / 2) / math.sqrt(2 * math.pi), math.erfc(z / math.sqrt(2)) / 2
        return spread * (density - z * tail) / need.mean


def plain_costs(
    state: ClusterState, plain: PlainWorth, shape: PodShape, row: int
) -> dict[tuple[int, ...], float]:
    """Return what the pod costs on `row`, by the GPUs that it takes."""
    index = int(state.gpu_model_ids[row])
    model = state.gpu_models[index] if index >= 0 else None
    free = [max(int(milli), 0) for milli in state.gpu_free_milli[row]]
    node = state.node(row)
    used = [pod.shape.requests for pod, where in state.pods.values() if where == row]
    left = {
        name: node.allocatable.get(name, 0) - sum(r.get(name, 0) for r in used) for name in ("cpu", "memory")
    }
    before = plain.of(model, free, left)
    left = {name: left[name] - shape.requests.get(name, 0) for name in left}
    if shape.gpu is None:
        return {(): before - plain.of(model, free, left)}
    costs: dict[tuple[int, ...], float] = {}
    usable = [gpu for gpu, milli in enumerate(free) if milli >= shape.gpu.milli]
    for gpus in itertools.combinations(usable, shape.gpu.count):
        after = [milli - shape.gpu.milli * (gpu in gpus) for gpu, milli in enumerate(free)]
        costs[gpus] = before - plain.of(model, after, left)
    return costs


@settings(max_examples=60)
@given(seed=SEEDS)
def test_costs_and_gpus_equal_a_plain_evaluation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, workload = scene(rng)
    if Outlook.of(workload) is None or not state.gpu_models:
        return
    plain = PlainWorth(state, workload)
    rule = BidPrice(workload=workload)
    tasks = [pending_task(shape, f"w{number}") for number, shape in enumerate(workload)]
    rule.begin(CycleView(state, 1.0, tasks, rng))
    for task in tasks:
        shape = task.task.shape
        scores = rule.scores(task, CompiledFilters(state, shape))
        for row in feasible_rows(state, shape):
            costs = plain_costs(state, plain, shape, row)
            least = min(costs.values())
            assert sum(rule.contributions(task, row).values()) == pytest.approx(-least, abs=0.05)
            assert scores[row] == pytest.approx(-least, abs=0.55)
            gpus = rule.choose_gpus(task, row)
            if gpus is not None:
                assert costs[gpus] == pytest.approx(least, abs=0.05)
            else:
                assert shape.gpu is None or shape.gpu.milli == 1000


@settings(max_examples=40)
@given(seed=SEEDS)
def test_cached_scores_are_those_of_the_state_as_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, workload = scene(rng)
    rule = BidPrice(workload=workload)
    everywhere = np.arange(state.capacity, dtype=np.intp)
    for turn in range(4):
        rule.begin(CycleView(state, float(turn), [], rng))
        for shape in workload:
            assert rule.scores_of(shape).tolist() == rule.score_rows(shape, everywhere).tolist()
        place_some(rng, state, workload, 2)


@settings(max_examples=20)
@given(seed=SEEDS)
def test_a_workload_that_is_seen_counts_as_one_that_is_given(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, workload = scene(rng)
    shapes = list(workload)
    tasks = [pending_task(shapes[i], f"w{n}") for n, i in enumerate(rng.integers(len(shapes), size=9))]
    counts = Counter(pod.shape for pod, _ in state.pods.values())
    counts.update(task.task.shape for task in tasks)
    told, seeing = BidPrice(workload=counts), BidPrice()
    for rule in (told, seeing):
        rule.begin(CycleView(state, 1.0, tasks, rng))
    for shape in shapes:
        assert told.scores_of(shape) == pytest.approx(seeing.scores_of(shape), abs=1.01)


def test_models_that_some_pods_must_have_are_left_to_them() -> None:
    state = ClusterState()
    for name, model in (("a", "A"), ("b", "B")):
        resources = Resources({"cpu": 64_000, "memory": 64 * GIB, "pods": 50})
        hardware = Hardware(gpus=tuple(Gpu(model) for _ in range(4)))
        state.apply(NodeSet(Node(name, resources, hardware=hardware)))
    shape = PodShape(
        requests=Resources({"cpu": 4000, "memory": 4 * GIB}),
        score_cpu_milli=4000,
        score_memory_bytes=4 * GIB,
        gpu=GpuRequest(1),
    )
    only_a = PodShape(
        requests=shape.requests,
        score_cpu_milli=4000,
        score_memory_bytes=4 * GIB,
        gpu=GpuRequest(1, 1000, ("A",)),
    )
    task = pending_task(shape, "w")
    scores = {}
    for name, workload in (("picky", {shape: 1.0, only_a: 1.0}), ("any", {shape: 1.0})):
        rule = BidPrice(workload=workload)
        rule.begin(CycleView(state, 0.0, [task], np.random.default_rng(0)))
        scores[name] = rule.scores(task, CompiledFilters(state, shape))
    a, b = state.row("a"), state.row("b")
    assert scores["picky"][a] < scores["picky"][b]
    assert scores["any"][a] == scores["any"][b]


def test_nothing_is_preferred_where_nothing_is_known() -> None:
    rng = np.random.default_rng(0)
    state, _ = scene(rng)
    rule = BidPrice()
    shape = some_shape(rng)
    rule.begin(CycleView(state, 0.0, [], rng))
    empty = ClusterState()
    rule.begin(CycleView(empty, 0.0, [], rng))
    assert rule.scores_of(shape).tolist() == [0.0] * empty.capacity
