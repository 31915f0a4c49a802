"""Nodes that some pods must have are kept for them: loads by hand, and who goes where."""

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    ClusterState,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.nodes.rare_nodes import RareNodes

GIB = 1 << 30
PART = "nodes that others must have"


def node(name: str, cores: int, *, model: str = "A", gpus: int = 1) -> Node:
    resources = Resources({"cpu": 1000 * cores, "memory": 64 * GIB, "pods": 50})
    return Node(name, resources, hardware=Hardware(cores=float(cores), gpus=(Gpu(model),) * gpus))


def shape(cores: int, *, gpus: int = 1, models: tuple[str, ...] = ()) -> PodShape:
    return PodShape(
        requests=Resources({"cpu": 1000 * cores, "memory": GIB}),
        score_cpu_milli=1000 * cores,
        score_memory_bytes=GIB,
        gpu=GpuRequest(gpus, 1000, models) if gpus else None,
    )


def pending(asked: PodShape, name: str = "w") -> PendingTask:
    workflow = Workflow(name, (Task("t", asked, WorkProfile((Phase(1.0),)), 1.0),))
    return PendingTask(f"{name}/t", WorkflowProgress(name, workflow, 0.0), 0, 0.0)


def cluster(*nodes: Node) -> ClusterState:
    state = ClusterState()
    for one in nodes:
        state.apply(NodeSet(one))
    return state


def parts(rule: RareNodes, state: ClusterState, asked: PodShape) -> dict[str, float]:
    """Return what the rule takes off each node's score because others must have it."""
    task = pending(asked)
    rule.begin(CycleView(state, 0.0, [task], np.random.default_rng(0)))
    rule.scores(task, CompiledFilters(state, asked))
    return {name: rule.contributions(task, row)[PART] for name, row in state.rows()}


WORKLOAD = {shape(2): 3.0, shape(16): 1.0}


def test_the_load_and_the_room_as_worked_out_by_hand() -> None:
    # Of four GPUs asked for three may lie anywhere: 3/4 each; one only on `large`: 1/4 · 2/1 more.
    # Loads 0.75 and 1.25; a whole GPU is 1000 thousandths on either.
    state = cluster(node("large", 32), node("small", 4))
    rule = RareNodes(workload=WORKLOAD)
    assert parts(rule, state, shape(2)) == pytest.approx({"large": -0.3 * 1250.0, "small": -0.3 * 750.0})
    # 16 of 32 cores are more than no GPU: half the node.
    assert parts(rule, state, shape(16, gpus=0))["large"] == pytest.approx(-0.3 * 625.0)


def test_a_model_that_pods_insist_on_is_rare_too() -> None:
    state = cluster(node("a", 8), node("b", 8, model="B"))
    rule = RareNodes(workload={shape(2): 1.0, shape(2, models=("B",)): 1.0})
    assert parts(rule, state, shape(2)) == pytest.approx({"a": -150.0, "b": -450.0})


def test_another_large_node_makes_large_nodes_less_rare() -> None:
    state = cluster(node("large", 32), node("small", 4))
    rule = RareNodes(workload=WORKLOAD)
    before = parts(rule, state, shape(2))["large"]
    state.apply(NodeSet(node("larger", 64)))
    after = parts(rule, state, shape(2))
    assert after["large"] == after["larger"] > before  # 3/4 + 1/4 · 3/2 = 1.125


def test_small_pods_leave_the_large_node_to_the_one_that_needs_it() -> None:
    state = cluster(node("large", 32), node("small", 4))
    engine = Engine(state, make_policy("rare-nodes", workload=WORKLOAD), rng=np.random.default_rng(0))
    (_, few), (_, many) = (
        engine.cycle(time_s, [pending(asked, name)]).placed[0]
        for time_s, asked, name in ((0.0, shape(2), "few"), (1.0, shape(16), "many"))
    )
    assert (few.node_name, many.node_name) == ("small", "large")
