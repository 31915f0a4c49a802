"""Each rule on an instance small enough to work out on paper; the arithmetic stands beside the numbers."""

import math

import numpy as np
import pytest

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
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, Policy, make_policy, policy_names
from stowplan.core.policy.nodes.fragmentation import TargetTask, target_workload
from stowplan.errors import InvalidInput, UnknownName
from tests.learned_cases import make_any

GIB = 1 << 30


def node(name: str, cpu: int, gib: int, *, gpus: int = 0, kind: str = "") -> Node:
    hardware = Hardware(cores=float(cpu), gpus=tuple(Gpu("A") for _ in range(gpus)), machine_type=kind)
    return Node(name, Resources({"cpu": cpu * 1000, "memory": gib * GIB, "pods": 100}), hardware=hardware)


def shape(cpu: float, gib: float = 0.0, gpu: GpuRequest | None = None, priority: int = 0) -> PodShape:
    cpu_milli, memory_bytes = round(cpu * 1000), round(gib * GIB)
    return PodShape(
        requests=Resources({"cpu": cpu_milli, "memory": memory_bytes}),
        score_cpu_milli=cpu_milli,
        score_memory_bytes=memory_bytes,
        gpu=gpu,
        priority=priority,
    )


def task(
    name: str,
    asked: PodShape,
    seconds: float = 1.0,
    *,
    template: str = "",
    input_bytes: float = 0.0,
    factors: tuple[tuple[str, float], ...] = (),
) -> Task:
    work = WorkProfile((Phase(seconds),), machine_factors=factors)
    return Task(name, asked, work, seconds, template=template, input_bytes=input_bytes)


def cluster(*nodes: Node) -> ClusterState:
    state = ClusterState()
    for one in nodes:
        state.apply(NodeSet(one))
    return state


def bind(state: ClusterState, name: str, asked: PodShape, gpus: tuple[int, ...] = ()) -> None:
    state.apply(PodBound(BoundPod(f"pod-{len(state.pods)}", asked, gpus), name))


def waiting(*tasks: Task, edges: tuple[tuple[str, str], ...] = (), name: str = "w") -> list[PendingTask]:
    progress = WorkflowProgress(name, Workflow(name, tasks, edges), 0.0)
    return [PendingTask(f"{name}/{tasks[i].name}", progress, i, 0.0) for i in progress.start()]


def ordered(policy: Policy, state: ClusterState, pending: list[PendingTask]) -> list[str]:
    plan = policy.plan(CycleView(state, 0.0, pending, np.random.default_rng(0)))
    return [pending[index].key.partition("/")[2] for index in plan.order]


def scored(policy: Policy, state: ClusterState, asked: Task) -> list[float]:
    """Return the score of each node, in order of insertion."""
    pending = waiting(asked)
    plan = policy.plan(CycleView(state, 0.0, pending, np.random.default_rng(0)))
    scores = plan.scores(0, CompiledFilters(state, asked.shape))
    return [float(scores[row]) for _, row in state.rows()]


# ---- orders ----


def test_fifo_keeps_arrival_but_a_higher_class_goes_first() -> None:
    pending = waiting(task("a", shape(1), 9), task("b", shape(1, priority=5), 9), task("c", shape(1), 1))
    assert ordered(make_policy("fifo"), cluster(), pending) == ["b", "a", "c"]
    assert ordered(make_policy("kube-scheduler"), cluster(), pending) == ["b", "a", "c"]


def test_sjf_takes_the_shortest_then_the_smaller() -> None:
    pending = waiting(task("long", shape(1), 9), task("big", shape(4), 2), task("small", shape(2), 2))
    assert ordered(make_policy("sjf"), cluster(), pending) == ["small", "big", "long"]


def test_srpt_finishes_the_workflow_with_least_left_and_its_longest_path_first() -> None:
    much = waiting(task("m1", shape(1), 3), task("m2", shape(1), 20), name="much")  # 23 s left
    little = waiting(task("l1", shape(1), 4), task("l2", shape(1), 6), name="little")  # 10 s left
    for name in ("srpt", "srpt-physics"):
        assert ordered(make_policy(name), cluster(), much + little) == ["l2", "l1", "m2", "m1"]


def test_critical_path_takes_the_longest_remaining_path() -> None:
    # a(1) → d(9): 10 s below a; b alone takes 5; c(2) → e(2): 4.
    tasks = [task(n, shape(1), s) for n, s in (("a", 1), ("b", 5), ("c", 2), ("d", 9), ("e", 2))]
    pending = waiting(*tasks, edges=(("a", "d"), ("c", "e")))
    assert ordered(make_policy("critical-path"), cluster(), pending) == ["a", "b", "c"]


def test_heft_ranks_by_the_mean_over_the_machines_that_there_are() -> None:
    # x: 10 s, 4 × on slow; y: 12 s everywhere. One fast and one slow node: mean of x is 25.
    tasks = (task("y", shape(1), 12), task("x", shape(1), 10, factors=(("slow", 4.0),)))
    both = cluster(node("f", 8, 8, kind="fast"), node("s", 8, 8, kind="slow"))
    assert ordered(make_policy("heft"), both, waiting(*tasks)) == ["x", "y"]
    assert ordered(make_policy("heft"), cluster(node("f", 8, 8, kind="fast")), waiting(*tasks)) == ["y", "x"]


def test_heft_counts_communication_when_told_the_bandwidth() -> None:
    heavy = Task("heavy", shape(1), WorkProfile((Phase(1.0),)), 1.0, output_bytes=100.0)
    tasks = (task("light", shape(1), 5), heavy, task("a", shape(1), 1), task("b", shape(1), 1))
    pending = waiting(*tasks, edges=(("light", "a"), ("heavy", "b")))
    assert ordered(make_policy("heft"), cluster(node("n", 8, 8)), pending) == ["light", "heavy"]  # 6 s, 2 s
    policy = make_policy("heft", bytes_per_s=10.0)  # 100 bytes take 10 s: 1 + 10 + 1 = 12 s
    assert ordered(policy, cluster(node("n", 8, 8)), pending) == ["heavy", "light"]


def test_rank_min_takes_the_deepest_process_then_the_smaller_input() -> None:
    # Process p is followed by q and r; q alone ends. a1 and a2 are of process p: same rank though a2 has no
    # child.
    tasks = (
        task("leaf", shape(1), template="q", input_bytes=1.0),
        task("a1", shape(1), template="p", input_bytes=9.0),
        task("a2", shape(1), template="p", input_bytes=5.0),
        task("mid", shape(1), template="q"),
        task("end", shape(1), template="r"),
    )
    pending = waiting(*tasks, edges=(("a1", "mid"), ("mid", "end")))
    assert ordered(make_policy("rank-min-round-robin"), cluster(), pending) == ["a2", "a1", "leaf"]


def test_tetris_takes_what_aligns_best_and_of_workflows_the_one_with_little_left() -> None:
    state = cluster(node("n", 10, 10))
    pending = waiting(task("cpu", shape(5, 1)), task("both", shape(4, 4)), task("small", shape(1, 1)))
    # On the idle node alignment is (asked/10 · 1) summed: 0.6, 0.8, 0.2.
    assert ordered(make_policy("tetris", remaining_weight=0.0), state, pending) == ["both", "cpu", "small"]
    long = waiting(task("l", shape(4, 4), 100), name="long")
    short = waiting(task("s", shape(3, 4), 1), name="short")
    assert ordered(make_policy("tetris", remaining_weight=0.0), state, long + short) == ["l", "s"]  # 0.8, 0.7
    # Work left: 100 s · 0.8 and 1 s · 0.7, mean 40.35; mean alignment 0.75. 0.8 − 0.75·80/40.35 < 0.7 −
    # 0.75·0.7/40.35.
    assert ordered(make_policy("tetris"), state, long + short) == ["s", "l"]


# ---- nodes ----


def test_kube_scheduler_scores_as_worked_out_by_hand() -> None:
    state = cluster(node("idle", 10, 10), node("busy", 10, 20))
    bind(state, "busy", shape(5, 2))
    # idle: free 90 % and 70 % → 80; balance 100 alone, shares .1/.3 → σ .1 → 90: 50 + (50 + 90 − 100)/2 = 70.
    # busy: free 40 % and 75 % → 57; before .5/.1 → σ .2 → 80; after .6/.25 → σ .175 → 82: 50 + (50 + 82 −
    # 80)/2 = 76. No taint anywhere: 3 · 100 for both.
    assert scored(make_policy("kube-scheduler"), state, task("t", shape(1, 3))) == [450.0, 433.0]


def test_percentage_of_nodes_to_score_looks_on_from_where_it_stopped() -> None:
    state = cluster(*(node(f"n{i:03d}", 8, 8) for i in range(250)))
    policy = make_policy("kube-scheduler", percentage_of_nodes_to_score=40)  # 100 of 250
    looked_at = [np.flatnonzero(np.isfinite(scored(policy, state, task("t", shape(1, 1))))) for _ in range(3)]
    assert looked_at[0].tolist() == list(range(100))
    assert looked_at[1].tolist() == list(range(100, 200))
    assert looked_at[2].tolist() == [*range(50), *range(200, 250)]
    adaptive = make_policy("kube-scheduler", percentage_of_nodes_to_score=0)  # 50 − 250/125 = 48 %: 120
    assert np.isfinite(scored(adaptive, state, task("t", shape(1, 1)))).sum() == 120


def test_best_fit_leaves_the_least() -> None:
    state = cluster(node("large", 8, 8), node("small", 4, 4))
    # Left over after (2, 2): (6, 6) and (2, 2) of (8, 8): 1 − ½(.75 + .75) = .25, 1 − ½(.25 + .25) = .75.
    assert scored(make_policy("best-fit"), state, task("t", shape(2, 2))) == [25.0, 75.0]


def test_dot_product_prefers_the_smallest_product_and_tetris_the_largest() -> None:
    state = cluster(node("large", 10, 10), node("small", 5, 5))
    # (1, 1)·(.2, .2) = .4 → 1 − .2; (.5, .5)·(.2, .2) = .2 → 1 − .1.
    assert scored(make_policy("dot-product"), state, task("t", shape(2, 2))) == [80.0, 90.0]
    bind(state, "large", shape(5, 0))
    # By each node's own capacity: large .2·.5 + .2·1 = .3; small .4·1 + .4·1 = .8.
    assert scored(make_policy("tetris"), state, task("t", shape(2, 2))) == pytest.approx([0.3, 0.8])


def test_gpu_packing_prefers_shared_gpus_then_used_nodes_then_small_idle_ones() -> None:
    state = cluster(
        *(node(n, 64, 64, gpus=g) for n, g in (("shared", 2), ("used", 2), ("idle2", 2), ("idle8", 8)))
    )
    bind(state, "shared", shape(1, 1, GpuRequest(1, 400)), (0,))
    bind(state, "used", shape(1, 1, GpuRequest(1)), (0,))
    # shared: 600 left on the GPU → 100 − 60/10 = 94; used: opens one → 50 − 1; idle: 33 − 2 and 33 − 8.
    share = task("t", shape(1, 1, GpuRequest(1, 500)))
    assert scored(make_policy("gpu-packing"), state, share) == [94.0, 49.0, 31.0, 25.0]
    whole = task("t", shape(1, 1, GpuRequest(1)))
    assert scored(make_policy("gpu-packing"), state, whole) == [49.0, 49.0, 31.0, 25.0]
    assert scored(make_policy("gpu-packing"), state, task("t", shape(1, 1))) == [0.0] * 4


def test_gpu_clustering_keeps_kinds_together() -> None:
    state = cluster(*(node(n, 64, 64, gpus=8) for n in ("same", "mixed", "idle", "other")))
    one, two = shape(1, 1, GpuRequest(1)), shape(1, 1, GpuRequest(2))
    bind(state, "same", one, (0,))
    bind(state, "mixed", one, (0,))
    bind(state, "mixed", two, (1, 2))
    bind(state, "other", two, (0, 1))
    # 25·used/8 within the quarter: 75 + 3, 50 + 9, 25 + 0, 0 + 6.
    assert scored(make_policy("gpu-clustering"), state, task("t", one)) == [78.0, 59.0, 25.0, 6.0]


def test_fgd_takes_the_gpu_and_node_where_least_becomes_useless() -> None:
    # The cluster serves tasks that need a whole GPU and, half of the time, half a GPU.
    workload = (TargetTask(1000, 1000, 1, share=0.5), TargetTask(1000, 500, 1, share=0.5))
    state = cluster(node("shared", 64, 64, gpus=2), node("idle", 64, 64, gpus=2))
    bind(state, "shared", shape(1, 1, GpuRequest(1, 500)), (0,))
    # shared holds 500 and 1000. F before: whole: 500 is too full → 500; half: 0 → ½·500 = 250.
    # on the half GPU: 0 and 1000 left: F = 0, a fall of 250; on the free one: 500 + 500: no whole fits →
    # ½·1000. idle: F before 0; after 500 + 1000: 250, a fall of −250.
    half = task("t", shape(1, 1, GpuRequest(1, 500)))
    policy = make_policy("fgd", workload=workload)
    sigmoid = [math.trunc(100 / (1 + math.exp(-x))) for x in (0.25, -0.25)]
    assert scored(policy, state, half) == sigmoid == [56.0, 43.0]
    engine = Engine(state, make_policy("fgd", workload=workload), rng=np.random.default_rng(0))
    ((_, placed),) = engine.cycle(0.0, waiting(half)).placed
    assert (placed.node_name, placed.gpus) == ("shared", (0,))


def test_target_workload_is_the_popular_part_with_shares_of_one() -> None:
    common, rare = shape(1, 1, GpuRequest(1, 500)), shape(2, 1)
    kinds = target_workload([common] * 19 + [rare])
    assert kinds == (TargetTask(1000, 500, 1, share=1.0),)  # 19 of 20 are 95 %
    assert [round(kind.share, 3) for kind in target_workload([common] * 3 + [rare])] == [0.75, 0.25]


def test_heft_and_peft_and_cpop_choose_machines_by_finish_time() -> None:
    nodes = (
        node("slow", 8, 8, kind="slow"),
        node("fast", 8, 8, kind="fast"),
        node("busy", 8, 8, kind="fast"),
    )
    state = cluster(*nodes)
    bind(state, "busy", shape(4, 4))
    asked = task("t", shape(1, 1), 10, factors=(("fast", 0.5), ("slow", 2.0)))
    scores = scored(make_policy("heft"), state, asked)  # −20, −5, −5 and the busier one a hair less
    assert scores[0] == pytest.approx(-20.0, abs=1e-3)
    assert scores[1] == pytest.approx(-5.0, abs=1e-3)
    assert scores[0] < scores[2] < scores[1]
    # One task is its own critical path: CPOP sends it to the fast type, PEFT adds no cost for what follows.
    for name in ("cpop", "peft"):
        assert int(np.argmax(scored(make_policy(name), state, asked))) == 1


def test_cpop_keeps_critical_tasks_on_the_machine_type_of_their_path() -> None:
    # a → b is critical. a is faster on p (2 against 3), b much faster on q: the path takes 2 + 20 on p, 3 + 4
    # on q.
    tasks = (
        task("a", shape(1), 1, factors=(("p", 2.0), ("q", 3.0))),
        task("c", shape(1), 1, factors=(("p", 2.0), ("q", 3.0))),
        task("b", shape(1), 1, factors=(("p", 20.0), ("q", 4.0))),
    )
    state = cluster(node("p", 8, 8, kind="p"), node("q", 8, 8, kind="q"))
    pending = waiting(*tasks, edges=(("a", "b"),))
    plan = make_policy("cpop").plan(CycleView(state, 0.0, pending, np.random.default_rng(0)))
    a, c = (plan.scores(i, CompiledFilters(state, pending[i].task.shape)) for i in (0, 1))
    assert a[state.row("q")] > a[state.row("p")]
    assert c[state.row("p")] > c[state.row("q")]


def test_round_robin_takes_turns_and_skips_the_full() -> None:
    state = cluster(node("a", 4, 4), node("b", 1, 1), node("c", 4, 4))
    bind(state, "b", shape(1, 1))
    engine = Engine(state, make_policy("round-robin"), rng=np.random.default_rng(0))
    report = engine.cycle(0.0, waiting(*(task(f"t{i}", shape(1, 1)) for i in range(4))))
    assert [placed.node_name for _, placed in report.placed] == ["a", "c", "a", "c"]


def test_random_reaches_every_feasible_node_and_gpu() -> None:
    asked = shape(0.01, 0.01, GpuRequest(1, 10))
    state = cluster(node("a", 4, 4, gpus=2), node("b", 4, 4, gpus=2), node("none", 4, 4))
    engine = Engine(state, make_policy("random"), rng=np.random.default_rng(1))
    report = engine.cycle(0.0, waiting(*(task(f"t{i}", asked) for i in range(60))))
    assert {(placed.node_name, placed.gpus) for _, placed in report.placed} == {
        (name, (gpu,)) for name in ("a", "b") for gpu in (0, 1)
    }


def test_physics_avoids_the_neighbour_that_loads_the_same_memory() -> None:
    def machine(name: str) -> Node:
        hardware = Hardware(cores=8.0, dram_bytes_per_s=10e9)
        return Node(name, Resources({"cpu": 8000, "memory": 8 * GIB, "pods": 10}), hardware=hardware)

    state = cluster(machine("stream"), machine("compute"))
    work = WorkProfile((Phase(10.0, cpu_cores=1.0, dram_bytes_per_s=8e9),))
    stream = Task("stream", shape(1, 1), work, 10.0)
    compute = task("compute", shape(4, 4), 10)
    first = waiting(stream, compute, name="first")
    policy = make_policy("srpt-physics")
    plan = policy.plan(CycleView(state, 0.0, first, np.random.default_rng(0)))
    assert plan.scores(0, CompiledFilters(state, stream.shape))[0] == pytest.approx(-10.0, rel=1e-5)
    state.apply(PodBound(BoundPod("first/stream", stream.shape), "stream"))
    state.apply(PodBound(BoundPod("first/compute", compute.shape), "compute"))
    second = waiting(Task("again", shape(1, 1), work, 10.0), name="second")
    running = {each.key: RunningTask(each, row, 0.0, 10.0) for row, each in enumerate(first)}
    plan = policy.plan(CycleView(state, 0.0, second, np.random.default_rng(0), running))
    scores = plan.scores(0, CompiledFilters(state, shape(1, 1)))
    # Two streams of 8 GB/s share 10 GB/s: 5 each, 10 s become 16.
    assert scores[:2] == pytest.approx([-16.0, -10.0], rel=1e-4)
    assert plan.expected_duration_s(0, 0) == pytest.approx(16.0, rel=1e-4)
    assert plan.contributions(0, 0) == pytest.approx({"machine": 0.0, "neighbours": -6.0}, abs=1e-3)


# ---- by name ----


def test_every_name_makes_a_policy_of_that_name() -> None:
    assert {make_any(name).name for name in policy_names()} == set(policy_names())
    assert all(description and "\n" not in description for description in policy_names().values())


def test_a_wrong_name_or_option_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown policy 'kube-schedular'; did you mean 'kube-scheduler'"):
        make_policy("kube-schedular")
    with pytest.raises(UnknownName, match="did you mean 'remaining_weight'"):
        make_policy("tetris", remaining_wieght=1.0)
    with pytest.raises(InvalidInput, match="policy 'sjf' has no options, but 'x' was given"):
        make_policy("sjf", x=1)
    with pytest.raises(InvalidInput, match="percentage_of_nodes_to_score is 101"):
        make_policy("kube-scheduler", percentage_of_nodes_to_score=101)
    with pytest.raises(InvalidInput, match="remaining_weight is -1"):
        make_policy("tetris", remaining_weight=-1.0)
