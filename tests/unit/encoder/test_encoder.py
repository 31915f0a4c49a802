"""What an encoder takes and refuses: any cluster, any number, statistics of its own columns, groups off."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stowplan.core.domain import (
    CPU,
    BoundPod,
    ClusterState,
    Disk,
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
from stowplan.core.encoder import SCHEMA, Encoded, Encoder, FeatureGroup, nominal_statistics
from stowplan.core.policy import CycleView
from stowplan.core.semantics import (
    NODE_QUANTITIES,
    FrozenStatistics,
    NodeReadings,
    freeze,
    no_moments,
    standard_scores,
)
from stowplan.core.semantics.moments import scaled_bounds
from stowplan.errors import InvalidInput
from tests.encoder_cases import ENCODED, assert_finite

SHAPE = PodShape(requests=Resources({CPU: 1000}))
READ = {
    FeatureGroup.MBPI: ("memory_bandwidth_utilisation", "memory_bandwidth_pressure"),
    FeatureGroup.STORAGE: (
        "storage_await_s",
        "storage_queue_depth",
        "storage_utilisation",
        "storage_bytes_per_s",
        "storage_level",
    ),
    FeatureGroup.RTT: ("rtt_tail_s",),
    FeatureGroup.PCIE: ("pcie_link_share",),
    FeatureGroup.MEMORY: ("memory_working_set_share", "memory_cache_share"),
    FeatureGroup.USAGE: ("cpu_utilisation", "cpu_wait_share", "nic_utilisation"),
}


def nodes(count: int) -> ClusterState:
    state = ClusterState()
    hardware = Hardware(8.0, 1e10, 1e9, 1e9, 1e10, disks=(Disk(1e8, 1e3),), machine_type="fast")
    for number in range(count):
        allocatable = Resources({CPU: 8000, "memory": 1 << 35, "pods": 9})
        state.apply(NodeSet(Node(f"n{number}", allocatable, hardware=hardware)))
    return state


def waiting(*workflows: Workflow, shape: PodShape | None = None) -> list[PendingTask]:
    found: list[PendingTask] = []
    for number, workflow in enumerate(workflows):
        progress = WorkflowProgress(f"w{number}", workflow, 0.0)
        for index in progress.start():
            one = workflow.tasks[index]
            actual = None if shape is None else replace(one, shape=shape)
            found.append(PendingTask(f"w{number}-{index}", progress, index, 1.0, actual))
    return found


def single(seconds: float, *, scale: float = 1.0) -> Workflow:
    """One task; `scale` is how much more of everything it takes."""
    phase = Phase(
        seconds * scale,
        cpu_cores=scale,
        dram_bytes_per_s=1e9 * scale,
        disk_read_bytes_per_s=1e6 * scale,
        nic_up_bytes_per_s=1e6 * scale,
        nic_down_bytes_per_s=1e6 * scale,
        pcie_bytes_per_s=1e6 * scale,
        latency_share=0.1 * scale,
    )
    work = WorkProfile(
        (phase,), anon_bytes=1e9 * scale, cache_bytes=1e9 * scale, machine_factors=(("fast", scale),)
    )
    task = Task("t", SHAPE, work, seconds * scale, input_bytes=1e6 * scale, output_bytes=1e6 * scale)
    return Workflow("w", (task,))


def encode(
    state: ClusterState,
    pending: list[PendingTask],
    *,
    running: dict[str, RunningTask] | None = None,
    readings: NodeReadings | None = None,
    encoder: Encoder | None = None,
    now_s: float = 10.0,
) -> Encoded:
    view = CycleView(state, now_s, pending, np.random.default_rng(0), running or {}, readings=readings)
    return (encoder or Encoder()).encode(view)


def board(state: ClusterState, rng: np.random.Generator) -> NodeReadings:
    readings = NodeReadings(state.capacity)
    values = rng.uniform(0.1, 0.9, (state.capacity, len(NODE_QUANTITIES)))
    readings.put_rows(np.arange(state.capacity), values, np.zeros(values.shape))
    return readings


# ---- any cluster, any number ----


@pytest.mark.parametrize("count", [0, 1, 17])
@pytest.mark.parametrize("seconds", [[], [5.0], [3.0, 0.0, 1e12]])
def test_any_number_of_nodes_and_tasks(count: int, seconds: list[float]) -> None:
    encoded = encode(nodes(count), waiting(*map(single, seconds)))
    assert encoded.task_features.shape == (len(seconds), SCHEMA.task.width)
    assert encoded.position.shape == (len(seconds), 4)
    assert encoded.order_prior.shape == encoded.priority.shape == (len(seconds),)
    assert encoded.node_features.shape == (count, SCHEMA.node.width)
    assert encoded.cluster_features.shape == (SCHEMA.cluster.width,)
    assert encoded.log_factor().shape == (len(seconds), count)
    assert {getattr(encoded, name).dtype for name in ENCODED} == {np.dtype(np.float32)}
    assert encoded.schema_id == SCHEMA.id
    assert_finite(encoded)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e308, -1e308])
def test_a_reading_that_is_no_number_is_unknown_or_bounded(number: float) -> None:
    state = nodes(3)
    readings = NodeReadings(state.capacity)
    values = np.full((state.capacity, len(NODE_QUANTITIES)), 0.5)
    values[1] = number
    readings.put_rows(np.arange(state.capacity), values, np.zeros(values.shape))
    encoded = encode(state, waiting(single(5.0)), readings=readings)
    assert_finite(encoded)
    known = [SCHEMA.node.encoded_names.index(f"{name}.known") for name in NODE_QUANTITIES]
    assert encoded.node_features[1, known].tolist() == [float(math.isfinite(number))] * len(known)
    assert encoded.node_features[2, known].tolist() == [1.0] * len(known)
    assert encoded.node_features[0].tobytes() == encoded.node_features[2].tobytes()


@pytest.mark.parametrize("factor", [0.0, math.inf, math.nan, -1.0, 1e300])
def test_a_factor_that_no_machine_has_is_bounded(factor: float) -> None:
    state = nodes(1)
    work = WorkProfile((Phase(1.0),), machine_factors=(("fast", factor),))
    pending = waiting(Workflow("w", (Task("t", SHAPE, work, 1.0),)))
    state.apply(PodBound(BoundPod("w0-0", SHAPE), "n0"))
    encoded = encode(state, pending)
    assert_finite(encoded)
    assert abs(encoded.log_factor()[0, 0]) <= np.float32(math.log(1000.0))


def test_a_node_that_has_nothing() -> None:
    state = nodes(0)
    state.apply(NodeSet(Node("bare", Resources({}))))
    assert_finite(encode(state, waiting(single(5.0))))


def test_ten_thousand_tasks_in_one_workflow() -> None:
    work = WorkProfile((Phase(5.0),))
    layers, width = 100, 100
    tasks = tuple(
        Task(f"{layer}-{place}", SHAPE, work, 5.0 + place, template=f"layer{layer}")
        for layer in range(layers)
        for place in range(width)
    )
    edges = tuple(
        (f"{layer}-{place}", f"{layer + 1}-{(place + step) % width}")
        for layer in range(layers - 1)
        for place in range(width)
        for step in (0, 1)
    )
    pending = waiting(Workflow("w", tasks, edges))
    encoded = encode(nodes(2), pending)
    assert len(pending) == len(encoded.members) == width
    assert_finite(encoded)
    names = [column.name for column in SCHEMA.task.columns]
    assert encoded.raw_task[0, names.index("workflow_open_tasks")] == 10_000
    wide = waiting(Workflow("v", tuple(replace(one, expected_s=5.0, template="t") for one in tasks)))
    assert [len(members) for members in encode(nodes(2), wide).members] == [10_000]


# ---- which groups ----


def test_the_workflows_with_the_least_left_come_first() -> None:
    pending = waiting(*(single(float(seconds)) for seconds in (50, 10, 40, 20, 30)))
    encoded = encode(nodes(1), pending, encoder=Encoder(most_groups=3))
    assert encoded.members == [[1], [3], [4]]
    assert encoded.group_of.tolist() == [-1, 0, -1, 1, 2]
    assert encoded.order_prior.tolist() == pytest.approx([-math.log(s) for s in (10, 20, 30)])
    names = [column.name for column in SCHEMA.cluster.columns]
    assert encoded.raw_cluster[names.index("pending_groups")] == 5


def test_a_higher_class_comes_first_whatever_is_left() -> None:
    urgent = replace(SHAPE, priority=7)
    pending = [*waiting(single(10.0)), *waiting(single(90.0), shape=urgent)]
    encoded = encode(nodes(1), pending, encoder=Encoder(most_groups=1))
    assert encoded.members == [[1]]
    assert encoded.priority.tolist() == [7]


def test_at_least_one_group_is_encoded() -> None:
    with pytest.raises(InvalidInput, match="most_groups is 0"):
        Encoder(most_groups=0)


# ---- statistics ----


def test_rows_are_scored_by_the_statistics_of_training() -> None:
    rng = np.random.default_rng(3)
    state = nodes(20)
    readings = board(state, rng)
    plain = encode(state, waiting(*(single(float(s)) for s in range(1, 30))), readings=readings)
    raw = (plain.raw_task, plain.raw_node, plain.raw_cluster[None, :])
    parts = [
        freeze(no_moments(table.features).added(rows)) for table, rows in zip(SCHEMA.tables, raw, strict=True)
    ]
    statistics = FrozenStatistics(tuple(one for part in parts for one in part.features))
    trained = Encoder(statistics=statistics)
    encoded = encode(
        state, waiting(*(single(float(s)) for s in range(1, 30))), readings=readings, encoder=trained
    )
    made = (encoded.task_features, encoded.node_features, encoded.cluster_features[None, :])
    for table, part, rows, found in zip(SCHEMA.tables, parts, raw, made, strict=True):
        scores, known = standard_scores(rows, part)
        varies = np.array([max(one.shares) < 1.0 for one in part.features])
        assert found[:, : len(table.columns)].tobytes() == np.where(varies, scores, 0.0).tobytes()
        assert np.array_equal(found[:, len(table.columns) :], (known & varies)[:, list(table.masked)])
    names = list(SCHEMA.node.encoded_names)
    assert abs(encoded.node_features[:, names.index("cpu_utilisation")].mean()) < 1e-5


def test_a_column_that_never_varied_in_training_is_unknown() -> None:
    rng = np.random.default_rng(3)
    low, high = scaled_bounds(SCHEMA.features)
    rows = rng.uniform(low, high, (100, low.size))
    rows = np.where([feature.is_log for feature in SCHEMA.features], np.exp(rows), rows)
    at = [feature.name for feature in SCHEMA.features].index("node.free_cpu_share")
    rows[:, at] = 0.25
    trained = Encoder(statistics=freeze(no_moments(SCHEMA.features).added(rows)))
    names = list(SCHEMA.node.encoded_names)
    place, mask = names.index("free_cpu_share"), names.index("free_cpu_share.known")
    encoded = encode(nodes(2), [], encoder=trained)
    assert encoded.node_features[:, [place, mask]].tolist() == [[0.0, 0.0]] * 2
    assert encoded.raw_node[0, place] == 1.0
    assert encode(nodes(2), []).node_features[0, mask] == 1.0


def test_statistics_of_other_columns_are_refused() -> None:
    statistics = nominal_statistics(SCHEMA)
    with pytest.raises(InvalidInput, match="columns are given, the model was trained with"):
        Encoder(statistics=FrozenStatistics(statistics.features[:-1]))
    swapped = FrozenStatistics((statistics.features[1], statistics.features[0], *statistics.features[2:]))
    with pytest.raises(InvalidInput, match=r"column 0 is 'task.demand_cpu_cores'"):
        Encoder(statistics=swapped)
    first = statistics.features[0]
    wider = msgspec.structs.replace(first, feature=msgspec.structs.replace(first.feature, high=2048.0))
    with pytest.raises(InvalidInput, match=r"'task.demand_cpu_cores' are of .*2048"):
        Encoder(statistics=FrozenStatistics((wider, *statistics.features[1:])))


# ---- groups of columns that are off ----


def features(encoded: Encoded) -> list[bytes]:
    parts = (encoded.task_features, encoded.position, encoded.cluster_features, encoded.node_features)
    return [part.tobytes() for part in parts]


def assert_hidden(group: FeatureGroup, views: Iterable[Callable[[Encoder], Encoded]]) -> None:
    """Two cycles that differ in what `group` tells are one without it, and are not with it."""
    one, other = views
    assert features(one(Encoder())) != features(other(Encoder()))
    others = set(FeatureGroup) - {group}
    assert features(one(Encoder(off=others))) != features(other(Encoder(off=others)))
    assert features(one(Encoder(off=[group]))) == features(other(Encoder(off=[group])))


@pytest.mark.parametrize("group", READ)
def test_readings_that_are_off_tell_nothing(group: FeatureGroup) -> None:
    state = nodes(4)
    readings, others = (board(state, np.random.default_rng(1)) for _ in range(2))
    at = [NODE_QUANTITIES.index(name) for name in READ[group]]
    values = others.values.copy()
    values[:, at] = np.random.default_rng(2).uniform(0.1, 0.9, (state.capacity, len(at)))
    others.put_rows(np.arange(state.capacity), values, np.zeros(values.shape))
    assert_hidden(
        group,
        (
            lambda encoder: encode(state, waiting(single(5.0)), readings=readings, encoder=encoder),
            lambda encoder: encode(state, waiting(single(5.0)), readings=others, encoder=encoder),
        ),
    )


def test_every_reading_is_of_a_group() -> None:
    assert sorted(name for names in READ.values() for name in names) == sorted(NODE_QUANTITIES)


def test_history_that_is_off_tells_nothing() -> None:
    def view(scale: float) -> Callable[[Encoder], Encoded]:
        def encoded(encoder: Encoder) -> Encoded:
            state = nodes(3)
            *pending, runs = waiting(*(single(float(s), scale=scale) for s in (5, 8, 13)))
            state.apply(PodBound(BoundPod(runs.key, SHAPE), "n1"))
            readings = board(state, np.random.default_rng(1))
            return encode(
                state,
                pending,
                running={runs.key: RunningTask(runs, 1, 0.0, 9.0)},
                readings=readings,
                encoder=encoder,
            )

        return encoded

    assert_hidden(FeatureGroup.HISTORY, (view(1.0), view(3.0)))


def test_topology_that_is_off_tells_nothing() -> None:
    tasks = tuple(Task(name, SHAPE, WorkProfile((Phase(5.0),)), 5.0) for name in "abcd")
    chain = (("a", "b"), ("b", "c"), ("c", "d"))
    star = (("a", "b"), ("a", "c"), ("a", "d"))

    def view(edges: tuple[tuple[str, str], ...]) -> Callable[[Encoder], Encoded]:
        return lambda encoder: encode(nodes(2), waiting(Workflow("w", tasks, edges)), encoder=encoder)

    assert_hidden(FeatureGroup.TOPOLOGY, (view(chain), view(star)))


@pytest.mark.parametrize("group", FeatureGroup)
def test_columns_that_are_off_stay_and_read_as_unknown(group: FeatureGroup) -> None:
    state = nodes(3)
    readings = board(state, np.random.default_rng(1))
    encoded = encode(state, waiting(single(5.0)), readings=readings, encoder=Encoder(off=[group]))
    rows = (encoded.task_features, encoded.node_features, encoded.cluster_features[None, :])
    off = 0
    for table, made in zip(SCHEMA.tables, rows, strict=True):
        assert made.shape[1] == table.width
        for column in table.columns:
            if group in column.groups:
                names = (column.name, f"{column.name}.known")
                assert not made[:, [table.encoded_names.index(name) for name in names]].any()
                off += 1
    assert off
