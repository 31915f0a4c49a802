"""The learned policy: the rule it starts from, live nodes, waiting, parts of a score, what others decide."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Hardware,
    Node,
    NodeRemoved,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.encoder import SCHEMA, Encoded, Encoder
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.learned import LearnedPolicy, Release, WithoutModel
from stowplan.core.policy.learned.graphs import Graphs
from stowplan.core.policy.learned.keeping import KeptNodes
from stowplan.errors import InternalError, InvalidFile, InvalidInput
from tests.learned_cases import GIB, ROOM, cluster, random_release, scored


def node(name: str, kind: str = "", cores: int = 8) -> Node:
    return Node(
        name,
        Resources({"cpu": cores * 1000, "memory": 32 * GIB, "pods": 50}),
        hardware=Hardware(cores=float(cores), machine_type=kind, dram_bytes_per_s=2e10),
    )


def workflow(
    name: str,
    durations_s: Sequence[float],
    factors: Mapping[str, float] | None = None,
) -> list[PendingTask]:
    """Return tasks that do not depend on one another and are all unlike."""
    tasks = tuple(
        Task(
            f"t{number}",
            ROOM,
            WorkProfile(
                (Phase(seconds, dram_bytes_per_s=4e9, latency_share=0.5),),
                machine_factors=tuple((factors or {}).items()),
            ),
            seconds,
        )
        for number, seconds in enumerate(durations_s)
    )
    progress = WorkflowProgress(name, Workflow(name, tasks), 0.0)
    return [PendingTask(f"{name}/{i}", progress, i, 0.0) for i in progress.start()]


def view_of(
    state: ClusterState, pending: Sequence[PendingTask], running: Mapping[str, RunningTask] | None = None
) -> CycleView:
    return CycleView(state, 1.0, pending, np.random.default_rng(0), running or {})


def with_head(release: Release, policy: LearnedPolicy, **columns: float) -> LearnedPolicy:
    """Return the policy with single numbers of every group set, whatever the network says."""
    graphs = policy._graphs
    plain = graphs.group_rows

    def changed(*arrays: np.ndarray) -> tuple[np.ndarray, float]:
        rows, value = plain(*arrays)
        rows = rows.copy()
        for name, number in columns.items():
            rows[:, release.manifest.network.group_columns[name]] = number
        return rows, value

    graphs.group_rows = changed  # type: ignore[method-assign]
    return policy


@pytest.fixture(scope="module")
def release() -> Release:
    return random_release()


@pytest.fixture
def policy(release: Release) -> LearnedPolicy:
    return LearnedPolicy(release)


def test_untrained_it_is_srpt_on_the_machine_where_it_ends_first() -> None:
    policy = LearnedPolicy(random_release(name="untrained", is_trained=False))
    state = cluster(node("a", "slow"), node("b", "fast"), node("c", "other"))
    factors = {"slow": 3.0, "fast": 0.5}
    pending = [*workflow("long", [40.0, 50.0], factors), *workflow("short", [5.0, 9.0], factors)]
    view = view_of(state, pending)
    plan = policy.plan(view)
    srpt = make_policy("srpt").plan(view)
    assert list(plan.order) == list(srpt.order) == [3, 2, 1, 0]
    scores = scored(plan, state, pending, 0)
    # A fifth of the bandwidth is asked for, half of the time waits on memory: 0.165 · 0.2 / 0.9 more of it.
    waits = 1.0 + 0.5 * 0.165 * 0.2 / 0.9
    assert scores == pytest.approx([-8 * math.log(by * waits) for by in (3.0, 0.5, 1.0)], abs=1e-5)
    durations_s = [plan.expected_duration_s(1, row) for row in range(3)]
    assert durations_s == pytest.approx([150.0 * waits, 25.0 * waits, 50.0 * waits])
    assert plan.duration_spread(1, 0) == pytest.approx(0.3)
    assert plan.blocking_risk(1) == 0.5
    assert plan.value == 0.0


def test_the_next_task_sees_the_node_as_the_last_one_left_it(policy: LearnedPolicy) -> None:
    state = cluster(node("a"), node("b"), node("c"))
    pending = workflow("w", [10.0, 20.0])
    plan = policy.plan(view_of(state, pending))
    before = scored(plan, state, pending, 1)
    assert before[0] == before[1] == before[2]
    state.apply(PodBound(BoundPod(pending[0].key, ROOM), "b"))
    after = scored(plan, state, pending, 1)
    assert after[1] != before[1]
    assert (after[0], after[2]) == (before[0], before[2])
    state.apply(PodRemoved(pending[0].key))
    assert scored(plan, state, pending, 1) == before


def test_only_nodes_that_changed_are_computed_again(
    policy: LearnedPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = cluster(*(node(f"n{number}") for number in range(40)))
    pending = workflow("w", [10.0, 20.0])
    counts: list[int] = []
    plain = Graphs.node_rows

    def counted(self: Graphs, features: np.ndarray) -> np.ndarray:
        counts.append(len(features))
        return plain(self, features)

    monkeypatch.setattr(Graphs, "node_rows", counted)
    engine = Engine(state, policy, rng=np.random.default_rng(0))
    assert len(engine.cycle(1.0, pending).placed) == 2
    engine.cycle(2.0, workflow("v", [10.0]))
    state.apply(NodeSet(node("more")))
    engine.cycle(3.0, workflow("u", [10.0]))
    assert counts[0] == 40
    assert sum(counts[1:-1]) <= 6
    assert max(counts[1:-1]) <= 2
    assert counts[-1] == 41 or 41 in counts


@settings(max_examples=30, deadline=None)
@given(data=st.data(), seed=st.integers(0, 999))
def test_a_row_of_a_node_does_not_depend_on_what_is_computed_beside_it(
    data: st.DataObject, seed: int
) -> None:
    graphs = Graphs(random_release())
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, SCHEMA.node.width)).astype(np.float32)
    rows = graphs.node_rows(features)
    first = data.draw(st.integers(0, 59))
    last = data.draw(st.integers(first, 59))
    assert graphs.node_rows(features[first : last + 1]).tobytes() == rows[first : last + 1].tobytes()


def test_kept_rows_are_those_of_a_fresh_start(release: Release) -> None:
    encoder, graphs = Encoder(statistics=release.manifest.statistics), Graphs(release)
    kept = KeptNodes(encoder, graphs)
    rng = np.random.default_rng(4)
    state = cluster(*(node(f"n{number}") for number in range(9)))
    pending = workflow("w", [5.0])
    for turn in range(30):
        action = rng.integers(5)
        if action == 0:
            state.apply(NodeSet(node(f"new{turn}", cores=4 + turn)))
        elif action == 1 and not state.pods_on[state.row("n1")] and turn % 3 == 0:
            state.apply(NodeRemoved("n1"))
            state.apply(NodeSet(node("n1", cores=2)))
        else:
            state.apply(PodBound(BoundPod(f"p{turn}", ROOM), f"n{int(rng.integers(2, 9))}"))
        encoded = encoder.encode(view_of(state, pending))
        kept.begin(encoded)
        again = Encoder(statistics=release.manifest.statistics).encode(view_of(state, pending))
        assert kept.rows.tobytes() == graphs.node_rows(again.node_features).tobytes()


# ---- waiting ----


def test_it_waits_only_while_something_runs_that_could_end(release: Release, policy: LearnedPolicy) -> None:
    with_head(release, policy, wait=1.0)
    state = cluster(node("a"), node("b"))
    engine = Engine(state, policy, rng=np.random.default_rng(0))
    report = engine.cycle(1.0, workflow("w", [10.0, 20.0]))
    assert len(report.placed) == 1  # the first must go: nothing runs
    assert [wait.reason for _, wait in report.waiting] == ["the policy prefers to wait"]
    running = {task.key: RunningTask(task, placed.row, 1.0, 9.0) for task, placed in report.placed}
    report = engine.cycle(2.0, [task for task, _ in report.waiting], running)
    assert (len(report.placed), len(report.waiting)) == (0, 1)


def test_a_plan_that_was_tried_out_and_undone_decides_the_same_again(
    release: Release, policy: LearnedPolicy
) -> None:
    with_head(release, policy, wait=1.0)
    state = cluster(node("a"), node("b"))
    pending = workflow("w", [10.0, 20.0])
    plan = policy.plan(view_of(state, pending))
    first, second = plan.order
    before = scored(plan, state, pending, first)
    state.apply(PodBound(BoundPod("w/x", ROOM), "a"))
    assert scored(plan, state, pending, second) == [-math.inf] * 2
    state.apply(PodRemoved("w/x"))
    assert scored(plan, state, pending, first) == before


# ---- explanations ----


def test_the_parts_of_a_score_add_up_to_it(policy: LearnedPolicy) -> None:
    state = cluster(node("a", "slow"), node("b", "fast"), node("c"))
    state.apply(PodBound(BoundPod("old", ROOM), "b"))
    pending = workflow("w", [10.0, 20.0], {"slow": 2.0, "fast": 0.7})
    plan = policy.plan(view_of(state, pending))
    for index in range(2):
        scores = scored(plan, state, pending, index)
        for row in range(3):
            parts = plan.contributions(index, row)
            assert sum(parts.values()) == pytest.approx(scores[row], abs=1e-4)
            assert {"machine type", "neighbours", "an average node", "all else together"} < set(parts)
            known = {column.name for column in SCHEMA.node.columns}
            assert 4 < len(parts) <= 10
            assert len(known & set(parts)) == len(parts) - 4


def test_the_expected_duration_is_that_of_the_prediction(policy: LearnedPolicy) -> None:
    state = cluster(node("a", "slow"), node("b"))
    pending = workflow("w", [10.0], {"slow": 2.0})
    plan = policy.plan(view_of(state, pending))
    slow, plain = plan.expected_duration_s(0, 0), plan.expected_duration_s(0, 1)
    assert slow != pytest.approx(20.0, rel=1e-3)
    assert slow / plain == pytest.approx(2.0, rel=1e-4)  # the nodes differ by nothing else
    assert 0.02 <= plan.duration_spread(0, 0) <= 2.0
    assert 0.0 < plan.blocking_risk(0) < 1.0


# ---- when it does not decide ----


def fallen_back(policy: LearnedPolicy | WithoutModel, pending: Sequence[PendingTask]) -> str:
    """Return why the engine fell back; the fallback has placed all tasks."""
    engine = Engine(
        cluster(node("a"), node("b")), policy, rng=np.random.default_rng(0), fallback=make_policy("srpt")
    )
    report = engine.cycle(1.0, pending)
    assert len(report.placed) == len(pending)
    assert report.degraded is not None
    assert (report.degraded.component, report.degraded.used_instead) == ("policy learned", "srpt")
    return report.degraded.reason


def trained_elsewhere(release: Release, share: float) -> LearnedPolicy:
    """Return the policy as if a share of the columns had seen far smaller numbers in training."""
    features = list(release.manifest.statistics.features)
    for at in range(0, len(features), round(1 / share)):
        one = features[at]
        features[at] = msgspec.structs.replace(one, mean=one.mean - 1e6 * one.deviation)
    statistics = msgspec.structs.replace(release.manifest.statistics, features=tuple(features))
    manifest = msgspec.structs.replace(release.manifest, statistics=statistics)
    graphs = release.files
    return LearnedPolicy(Release.of(manifest, node_graph=graphs["node.onnx"], task_graph=graphs["task.onnx"]))


def test_what_is_unlike_training_goes_to_the_fallback(release: Release) -> None:
    pending = workflow("w", [10.0, 20.0])
    reason = fallen_back(trained_elsewhere(release, 0.3), pending)
    assert re.match(r"\d+ of \d+ known columns are at least 5 deviations from what the model was", reason)
    assert "(task." in reason
    plan = trained_elsewhere(release, 0.05).plan(view_of(cluster(node("a")), pending))
    assert sorted(plan.order) == [0, 1]  # the network, whose weights are random, planned


def test_a_network_that_gives_no_numbers_goes_to_the_fallback(
    policy: LearnedPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = policy._encoder.encode

    def endless(view: CycleView) -> Encoded:
        encoded = plain(view)
        return replace(encoded, node_features=np.full_like(encoded.node_features, np.inf))

    monkeypatch.setattr(policy._encoder, "encode", endless)
    reason = fallen_back(policy, workflow("w", [10.0]))
    assert reason == "the node graph of a model gives numbers that are not finite; do not serve it"


def test_a_prediction_beyond_reason_goes_to_the_fallback(release: Release, policy: LearnedPolicy) -> None:
    with_head(release, policy, slowdown_query=50.0)
    assert "times as long as by physics; a rule should decide" in fallen_back(policy, workflow("w", [10.0]))


def test_without_a_model_the_fallback_decides_and_says_why() -> None:
    reason = InvalidFile("there is no release of a model at models/x")
    assert fallen_back(WithoutModel(reason), workflow("w", [10.0])) == str(reason)
    with pytest.raises(InvalidInput, match="policy 'learned' needs a model"):
        make_policy("learned")


# ---- sizes ----


@pytest.mark.parametrize("nodes", [0, 1, 300])
@pytest.mark.parametrize("tasks", [0, 1, 300])
def test_cycles_of_any_size_are_decided(policy: LearnedPolicy, nodes: int, tasks: int) -> None:
    state = cluster(*(node(f"n{number}") for number in range(nodes)))
    pending = workflow("w", [1.0 + number for number in range(tasks)]) if tasks else []
    engine = Engine(state, policy, rng=np.random.default_rng(0))
    report = engine.cycle(1.0, pending)
    assert len(report.placed) == (min(tasks, 256) if nodes > 1 else min(tasks, 8 * nodes))
    assert len(report.placed) + len(report.waiting) + len(report.infeasible) == tasks
    if nodes > 1:  # of 300 tasks that are all unlike, 256 are looked at
        assert {wait.reason for _, wait in report.waiting} <= {"learned holds the task back"}


def test_a_task_or_row_that_is_not_in_the_plan_is_a_defect(policy: LearnedPolicy) -> None:
    state = cluster(node("a"), node("b"))
    pending = workflow("w", [1.0 + number for number in range(257)])
    plan = policy.plan(view_of(state, pending))
    (left_out,) = set(range(257)) - set(np.asarray(plan.order).tolist())
    with pytest.raises(InternalError, match=f"task {left_out} is asked for, but it waits"):
        scored(plan, state, pending, left_out)
    with pytest.raises(InternalError, match="row 2 is asked for, but there is no node"):
        plan.expected_duration_s(int(plan.order[0]), 2)
