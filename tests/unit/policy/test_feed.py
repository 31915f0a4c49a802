"""The feed of changes that score caches follow, and what makes them start over."""

import numpy as np

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    NamespaceSet,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    StorageClass,
    StorageSet,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy import feed as feed_module
from stowplan.core.policy.feed import ChangeFeed

SHAPE = PodShape(requests=Resources({"cpu": 100}))


def two_nodes() -> ClusterState:
    state = ClusterState()
    for name in ("a", "b"):
        state.apply(NodeSet(Node(name, Resources({"cpu": 4000, "memory": 1 << 33, "pods": 110}))))
    return state


def bind(state: ClusterState, key: str, node: str, shape: PodShape = SHAPE) -> None:
    state.apply(PodBound(BoundPod(key, shape), node))


def test_pods_that_come_and_go_are_rows_with_the_id_of_their_shape() -> None:
    state = two_nodes()
    feed = ChangeFeed(state)
    other = PodShape(namespace="other")
    bind(state, "1", "a")
    bind(state, "2", "b", other)
    feed.catch_up()
    bind(state, "3", "b")
    state.apply(PodRemoved("1"))
    feed.catch_up()
    assert (feed.epoch, feed.length) == (0, 4)
    assert feed.rows_since(0).tolist() == [state.row("a"), state.row("b"), state.row("b"), state.row("a")]
    assert [feed.shapes[shape_id] for shape_id in feed.ids_since(1)] == [other, SHAPE, SHAPE]
    assert feed.rows_since(feed.length).size == 0


def test_nodes_and_namespaces_start_a_new_epoch_and_storage_does_not() -> None:
    state = two_nodes()
    feed = ChangeFeed(state)
    bind(state, "1", "a")
    state.apply(StorageSet(StorageClass("fast", "csi.example")))
    feed.catch_up()
    assert (feed.epoch, feed.length) == (0, 1)
    state.apply(NamespaceSet("x", ()))
    feed.catch_up()
    assert (feed.epoch, feed.length, feed.shapes) == (1, 0, [])
    bind(state, "2", "a")
    state.apply(NodeSet(Node("a", Resources({"cpu": 8000, "memory": 1 << 33, "pods": 110}))))
    feed.catch_up()
    assert (feed.epoch, feed.length) == (2, 0)


def test_a_feed_that_fell_too_far_behind_starts_over() -> None:
    state = two_nodes()
    feed = ChangeFeed(state)
    for number in range(feed_module._LIMIT + 1):
        if number % 2 == 0:
            bind(state, "1", "a")
        else:
            state.apply(PodRemoved("1"))
    feed.catch_up()
    assert (feed.epoch, feed.length) == (1, 0)


def test_it_grows_with_what_it_holds() -> None:
    state = two_nodes()
    feed = ChangeFeed(state)
    for number in range(1500):
        bind(state, str(number), "a" if number % 3 else "b", SHAPE)
    feed.catch_up()
    assert feed.length == 1500
    assert feed.rows_since(1498).tolist() == [state.row("a"), state.row("a")]


def test_a_policy_that_is_shown_another_cluster_forgets_the_first() -> None:
    task = Task("t", SHAPE, WorkProfile((Phase(1.0),)), 1.0)
    progress = WorkflowProgress("w", Workflow("w", (task,)), 0.0)
    pending = [PendingTask("w/t", progress, 0, 0.0)]
    for name in ("kube-scheduler", "best-fit", "gpu-clustering", "srpt-physics", "heft"):
        policy = make_policy(name)
        first = two_nodes()
        bind(first, "1", "a", PodShape(requests=Resources({"cpu": 3000}), score_cpu_milli=3000))
        second = two_nodes()
        bind(second, "1", "b", PodShape(requests=Resources({"cpu": 3000}), score_cpu_milli=3000))
        scores = []
        for state in (first, second):
            plan = policy.plan(CycleView(state, 0.0, pending, np.random.default_rng(0)))
            scores.append(plan.scores(0, CompiledFilters(state, SHAPE))[:2].tolist())
        assert scores[0] == scores[1][::-1], name
