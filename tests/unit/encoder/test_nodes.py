"""Rows of nodes and of the cluster, worked by hand."""

import math

import numpy as np
import pytest

from stowplan.core.domain import (
    CPU,
    MEMORY,
    BoundPod,
    ClusterState,
    Disk,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeRemoved,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    state,
)
from stowplan.core.encoder import SCHEMA, Encoded, Encoder, FeatureGroup
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.policy import CycleView
from stowplan.core.semantics import NODE_QUANTITIES, NodeReadings
from stowplan.errors import InternalError, InvalidInput

GIB = 1 << 30
LARGE = Node(
    "large",
    Resources({CPU: 8000, MEMORY: 32 * GIB, "pods": 20}),
    hardware=Hardware(
        cores=10.0,
        dram_bytes_per_s=1e10,
        nic_up_bytes_per_s=1e9,
        disks=(Disk(1e8, 1000.0), Disk(1e8, 3000.0)),
        gpus=(Gpu("A"), Gpu("A")),
        machine_type="slow",
    ),
)
SMALL = Node("small", Resources({CPU: 2000, MEMORY: 4 * GIB, "pods": 4}))
SHAPE = PodShape(requests=Resources({CPU: 2000, MEMORY: 8 * GIB}))
WORK = WorkProfile(
    (Phase(10.0, cpu_cores=2.0, dram_bytes_per_s=4e9, disk_read_bytes_per_s=1e7, latency_share=0.5),),
    machine_factors=(("slow", 2.0),),
    cpu_limit_cores=1.0,
)
WORKFLOW = Workflow("w", tuple(Task(f"t{number}", SHAPE, WORK, 10.0) for number in range(3)))


class Case:
    """Two nodes, a workflow of three tasks, and an encoder that goes from view to view."""

    def __init__(self) -> None:
        self.state = ClusterState()
        for node in (LARGE, SMALL):
            self.state.apply(NodeSet(node))
        self.progress = WorkflowProgress("w", WORKFLOW, 0.0)
        self.pending = [
            PendingTask(f"p{index}", self.progress, index, 0.0) for index in self.progress.start()
        ]
        self.running: dict[str, RunningTask] = {}
        self.readings: NodeReadings | None = None
        self.encoder = Encoder()

    def encode(self) -> Encoded:
        view = CycleView(
            self.state,
            1.0,
            self.pending,
            np.random.default_rng(0),
            self.running,
            readings=self.readings,
        )
        return self.encoder.encode(view)

    def bind(self, key: str, node: str, shape: PodShape = SHAPE, gpus: tuple[int, ...] = ()) -> None:
        self.state.apply(PodBound(BoundPod(key, shape, gpus=gpus), node))

    def node(self, name: str) -> dict[str, float]:
        encoded = self.encode()
        place = encoded.node_rows.tolist().index(self.state.row(name))
        names = [column.name for column in SCHEMA.node.columns]
        return dict(zip(names, encoded.raw_node[place].tolist(), strict=True))

    def cluster(self) -> dict[str, float]:
        names = [column.name for column in SCHEMA.cluster.columns]
        return dict(zip(names, self.encode().raw_cluster.tolist(), strict=True))

    def read(self, row: int, *, second: float = 0.0, **values: float) -> None:
        if self.readings is None:
            self.readings = NodeReadings(self.state.capacity)
        numbers = [values.get(name, math.nan) for name in NODE_QUANTITIES]
        self.readings.put_rows(np.array([row]), np.array([numbers]), np.full((1, len(numbers)), second))


@pytest.fixture
def case() -> Case:
    return Case()


def test_what_a_node_has(case: Case) -> None:
    large, small = case.node("large"), case.node("small")
    assert large["capacity_cpu_cores"] == 10.0
    assert large["capacity_disk_bytes_per_s"] == 2e8
    assert large["capacity_disk_operations_per_s"] == 4000.0
    assert math.isnan(large["capacity_nic_down_bytes_per_s"])
    assert (large["allocatable_memory_bytes"], large["memory_per_core_bytes"]) == (32.0 * GIB, 3.2 * GIB)
    assert (large["gpus"], large["free_gpu_share"]) == (2.0, 1.0)
    assert (small["capacity_cpu_cores"], small["gpus"]) == (2.0, 0.0)
    assert math.isnan(small["free_gpu_share"])
    assert math.isnan(small["known_pods_share"])


def test_what_is_free(case: Case) -> None:
    case.bind("a", "large")
    half = PodShape(requests=Resources({CPU: 1000}), gpu=GpuRequest(1, 500))
    case.bind("b", "large", half, gpus=(1,))
    large = case.node("large")
    assert (large["free_cpu_share"], large["free_cpu_cores"]) == (5 / 8, 5.0)
    assert (large["free_memory_share"], large["free_memory_bytes"]) == (0.75, 24.0 * GIB)
    assert (large["free_pods_share"], large["pods"]) == (0.9, 2.0)
    assert large["free_gpu_share"] == 0.75


def test_gpus_that_are_free_together(case: Case) -> None:
    assert math.isnan(case.node("large")["free_gpus_together"])  # its root complexes are unknown
    gpus = tuple(Gpu("A", root) for root in ("r0", "r0", "r1", "r1", "r1", ""))
    case.state.apply(NodeSet(Node("eight", LARGE.allocatable, hardware=Hardware(gpus=gpus))))
    assert case.node("eight")["free_gpus_together"] == 3.0
    assert math.isnan(case.node("small")["free_gpus_together"])
    case.bind("g", "eight", PodShape(gpu=GpuRequest(1, 200)), gpus=(3,))
    assert case.node("eight")["free_gpus_together"] == 2.0
    case.bind("h", "eight", PodShape(gpu=GpuRequest(3)), gpus=(0, 1, 2))
    case.bind("i", "eight", PodShape(gpu=GpuRequest(1)), gpus=(4,))
    assert case.node("eight")["free_gpus_together"] == 0.0
    assert case.node("eight")["free_gpu_share"] == pytest.approx(1.8 / 6)


def test_a_known_task_takes_what_its_profile_says(case: Case) -> None:
    case.bind("p0", "large")
    case.running["p0"] = RunningTask(case.pending.pop(0), 0, 0.0, 10.0)
    large = case.node("large")
    assert large["load_cpu"] == pytest.approx(1.0 / 10.0)  # its limit is half of what it could use
    assert large["load_dram"] == pytest.approx(4e9 / 1e10 / 2 / 2)  # half for the limit, half for the machine
    assert large["load_disk"] == pytest.approx(1e7 / 2e8 / 2 / 2)
    assert math.isnan(large["load_nic_down"])
    assert (large["exposed_tasks"], large["exposed_cpu_share"]) == (0.5, pytest.approx(0.05))
    assert (large["known_pods_share"], large["other_cpu_share"]) == (1.0, 0.0)
    case.bind("stranger", "large")
    large = case.node("large")
    assert large["load_cpu"] == pytest.approx(3.0 / 10.0)  # of a stranger the request
    assert large["load_dram"] == pytest.approx(0.1)
    assert (large["known_pods_share"], large["other_cpu_share"]) == (0.5, 0.25)


def test_what_is_known_of_a_pod_comes_and_goes_with_the_view(case: Case) -> None:
    case.bind("p0", "large")
    assert case.node("large")["load_cpu"] == pytest.approx(0.1)  # it is pending still
    first = case.pending.pop(0)
    assert case.node("large")["load_cpu"] == pytest.approx(0.2)  # nobody knows it
    case.running["p0"] = RunningTask(first, 0, 0.0, 10.0)
    assert case.node("large")["load_cpu"] == pytest.approx(0.1)
    twice = Task("t0", SHAPE, WorkProfile((Phase(10.0, cpu_cores=8.0),)), 10.0)
    case.running["p0"] = RunningTask(PendingTask("p0", case.progress, 0, 0.0, twice), 0, 0.0, 10.0)
    assert case.node("large")["load_cpu"] == pytest.approx(0.8)
    case.running.clear()
    assert case.node("large")["load_cpu"] == pytest.approx(0.2)
    case.state.apply(PodRemoved("p0"))
    assert case.node("large")["load_cpu"] == 0.0


def test_a_task_whose_workflow_is_another_one_is_looked_at_again(case: Case) -> None:
    case.bind("p0", "large")
    case.running["p0"] = RunningTask(case.pending.pop(0), 0, 0.0, 10.0)
    case.encode()
    light = Task("t0", SHAPE, WorkProfile((Phase(10.0, cpu_cores=0.5),)), 10.0)
    case.progress.workflow = Workflow("w", (light, *WORKFLOW.tasks[1:]))
    assert case.node("large")["load_cpu"] == pytest.approx(0.05)


def test_a_placement_shows_in_the_same_cycle(case: Case) -> None:
    encoded = case.encode()
    assert case.encoder.refresh_nodes().tolist() == [0, 1]
    assert case.encoder.refresh_nodes().tolist() == []
    before = encoded.node_features.copy()
    case.bind("p0", "large")
    assert case.encoder.refresh_nodes().tolist() == [0]
    assert (encoded.node_features[0] != before[0]).any()
    assert encoded.node_features[1].tobytes() == before[1].tobytes()
    load_cpu = SCHEMA.node.places["load_cpu"]
    assert encoded.raw_node[0, load_cpu] == pytest.approx(0.1)
    case.state.apply(PodRemoved("p0"))
    assert case.encoder.refresh_nodes().tolist() == [0]
    assert encoded.node_features.tobytes() == before.tobytes()


def test_a_placement_shows_though_the_journal_was_lost(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_JOURNAL_LIMIT", 4)
    encoded = case.encode()
    case.encoder.refresh_nodes()
    before = encoded.node_features.copy()
    case.bind("p0", "large")
    for number in range(10):
        case.state.apply(NodeSet(Node(f"{number}", SMALL.allocatable)))
        case.state.apply(NodeRemoved(f"{number}"))
    assert case.state.changes_since(0) is None
    assert case.encoder.refresh_nodes()[0] == 0
    assert (encoded.node_features[0] != before[0]).any()
    assert encoded.node_features.tobytes() == case.encode().node_features.tobytes()
    assert encoded.load[0, Resource.CPU] == pytest.approx(2.0)


def test_hidden_load_and_slow_disks_are_seen_where_they_are_read() -> None:
    def seen(*off: FeatureGroup) -> Encoded:
        case = Case()
        case.encoder = Encoder(off=off)
        encoded = case.encode()
        for second in range(0, 60, 5):
            case.read(
                0,
                second=float(second),
                memory_bandwidth_utilisation=0.68,  # 85 % of the bandwidth is the most that there is
                storage_bytes_per_s=3e7,
                storage_utilisation=0.5,
            )
            encoded = case.encode()
        return encoded

    both = seen()
    assert both.load[0, Resource.DRAM] == pytest.approx(8e9)
    assert both.load[0, Resource.DISK] == pytest.approx(3e7)
    assert both.capacity[0, Resource.DISK] == pytest.approx(6e7)
    assert (both.load[1] == 0.0).all()
    without = seen(FeatureGroup.MBPI)
    assert (without.load[0, Resource.DRAM], without.load[0, Resource.DISK]) == pytest.approx((0.0, 3e7))
    without = seen(FeatureGroup.STORAGE)
    assert (without.load[0, Resource.DRAM], without.load[0, Resource.DISK]) == pytest.approx((8e9, 0.0))
    assert without.capacity[0, Resource.DISK] == pytest.approx(2e8)


def test_readings_and_what_pods_do_not_explain(case: Case) -> None:
    assert math.isnan(case.node("large")["cpu_utilisation"])
    case.bind("p0", "large")
    case.running["p0"] = RunningTask(case.pending.pop(0), 0, 0.0, 10.0)
    case.read(0, cpu_utilisation=0.6, memory_bandwidth_utilisation=0.5, storage_bytes_per_s=1e8)
    large = case.node("large")
    assert large["cpu_utilisation"] == 0.6
    assert large["unexplained_cpu"] == pytest.approx(0.5)
    assert large["unexplained_dram"] == pytest.approx(0.4)
    assert large["unexplained_disk"] == pytest.approx(0.5 - 0.0125)
    assert math.isnan(large["unexplained_nic"])
    assert math.isnan(case.node("small")["cpu_utilisation"])
    case.read(0, cpu_utilisation=0.2)
    large = case.node("large")
    assert large["unexplained_cpu"] == pytest.approx(0.1)
    assert math.isnan(large["unexplained_dram"])
    case.readings = None
    assert math.isnan(case.node("large")["cpu_utilisation"])


def test_a_board_of_another_state_is_refused(case: Case) -> None:
    case.readings = NodeReadings(1)
    with pytest.raises(InvalidInput, match="board of readings has 1 rows, the state 16; `grow` it"):
        case.encode()
    case.readings = NodeReadings(17)
    with pytest.raises(InvalidInput, match="board of readings has 17 rows"):
        case.encode()
    case.readings = NodeReadings(16, ["cpu_utilisation"])
    with pytest.raises(InvalidInput, match="holds no 'memory_bandwidth_utilisation'"):
        case.encode()


def test_a_cycle_that_failed_leaves_nothing_half_done(case: Case) -> None:
    epoch = case.encode().node_epoch
    case.bind("p0", "large")
    case.running["p0"] = RunningTask(case.pending.pop(0), 0, 0.0, 10.0)
    case.readings = NodeReadings(1)
    with pytest.raises(InvalidInput):
        case.encode()
    case.readings = None
    assert case.node("large")["load_cpu"] == pytest.approx(0.1)
    assert case.encode().node_epoch > epoch


def test_nodes_come_change_and_go(case: Case) -> None:
    epoch = case.encode().node_epoch
    case.state.apply(NodeSet(Node("small", Resources({CPU: 4000, MEMORY: 4 * GIB, "pods": 4}))))
    assert case.encode().node_epoch == epoch
    assert case.node("small")["capacity_cpu_cores"] == 4.0
    case.bind("x", "small")
    heavy = Hardware(cores=4.0, machine_type="other")
    case.state.apply(NodeSet(Node("small", SMALL.allocatable, hardware=heavy)))
    assert case.encode().type_of_node.tolist() == [1, 0]  # "other", "slow"
    for number in range(20):  # more than the state had rows
        case.state.apply(NodeSet(Node(f"n{number}", SMALL.allocatable)))
    encoded = case.encode()
    assert encoded.node_epoch > epoch
    assert encoded.node_features.shape == (22, SCHEMA.node.width)
    assert case.encoder.refresh_nodes().tolist() == list(range(22))
    case.state.apply(NodeRemoved("n3"))
    assert case.encode().node_features.shape == (21, SCHEMA.node.width)
    assert case.node("n4") == pytest.approx(case.node("n19"), nan_ok=True)


def test_the_cluster(case: Case) -> None:
    case.bind("x", "large")
    case.read(0, cpu_utilisation=0.6)
    case.read(1, cpu_utilisation=0.2)
    cluster = case.cluster()
    assert (cluster["nodes"], cluster["machine_types"], cluster["common_type_share"]) == (2, 2, 0.5)
    assert (cluster["gpu_nodes_share"], cluster["cores"]) == (0.5, 10.0)
    assert (cluster["free_cpu_share"], cluster["free_memory_share"]) == (0.8, 28 / 36)
    assert (cluster["most_free_cpu_cores"], cluster["most_free_memory_bytes"]) == (6.0, 24.0 * GIB)
    assert cluster["load_cpu"] == pytest.approx((0.2 + 0.0) / 2)
    assert cluster["load_dram"] == 0.0  # of the one whose bandwidth is known
    assert math.isnan(cluster["load_nic_down"])
    assert cluster["mean_cpu_utilisation"] == pytest.approx(0.4)
    assert math.isnan(cluster["mean_storage_level"])
    assert (cluster["pending_tasks"], cluster["pending_groups"], cluster["pending_workflows"]) == (3, 1, 1)
    assert (cluster["running_tasks"], cluster["oldest_waiting_s"]) == (0, 1.0)
    assert cluster["demanded_cpu_share"] == pytest.approx(0.6)
    assert cluster["remaining_s"] == pytest.approx(3.0)


def test_another_state_is_another_epoch(case: Case) -> None:
    epoch = case.encode().node_epoch
    case.state = ClusterState()
    case.state.apply(NodeSet(SMALL))
    case.state.apply(NodeSet(LARGE))
    assert case.encode().node_epoch > epoch
    assert case.encoder.refresh_nodes().tolist() == [0, 1]
    assert case.node("large")["gpus"] == 2.0


def test_nothing_can_be_refreshed_before_it_was_encoded() -> None:
    with pytest.raises(InternalError, match="before anything was encoded"):
        Encoder().refresh_nodes()
