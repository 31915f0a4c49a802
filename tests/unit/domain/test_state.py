"""The cluster state: what events do to the arrays, and what contradictions they refuse."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from stowplan.core.domain import (
    ABSENT,
    CPU_COLUMN,
    MEMORY_COLUMN,
    PODS_COLUMN,
    BoundPod,
    ChangeKind,
    ClusterState,
    Gpu,
    GpuRequest,
    Hardware,
    HostPort,
    NamespaceRemoved,
    NamespaceSet,
    Node,
    NodeRemoved,
    NodeSet,
    PersistentVolumeClaim,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    SnapshotPool,
    StorageClass,
    StorageRemoved,
    StorageSet,
    Taint,
    TaintEffect,
    validate_state,
)
from stowplan.errors import InternalError, InvalidObject, StateConflict


def node(name: str, cpu: int = 4000, **more: object) -> Node:
    return Node(name, Resources({"cpu": cpu, "memory": 2**33, "pods": 110}), **more)  # pyright: ignore[reportArgumentType]


def shape(cpu: int = 500, **more: object) -> PodShape:
    return PodShape(requests=Resources({"cpu": cpu, "memory": 2**20}), **more)  # pyright: ignore[reportArgumentType]


def state_of(*nodes: Node) -> ClusterState:
    state = ClusterState()
    for each in nodes:
        state.apply(NodeSet(each))
    return state


def test_pods_take_and_give_back_exactly_what_they_ask_for() -> None:
    state = state_of(node("n1"), node("n2"))
    state.apply(PodBound(BoundPod("p", shape()), "n2"))
    row = state.row("n2")
    assert state.requested[row, [CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN]].tolist() == [500, 2**20, 1]
    assert state.scored[row].tolist() == [100, 200 * 2**20]
    validate_state(state)
    state.apply(PodRemoved("p"))
    assert not state.requested.any()
    assert not state.index.groups
    validate_state(state)


def test_a_new_resource_gets_a_column_and_rows_grow() -> None:
    state = state_of(*(node(f"n{i}") for i in range(40)))
    state.apply(NodeSet(Node("g", Resources({"cpu": 1, "example.com/chip": 8}))))
    assert state.capacity == 64
    assert state.allocatable[state.row("g"), state.columns["example.com/chip"]] == 8
    assert state.node_count == 41
    assert [name for name, _ in state.rows()][:2] == ["n0", "n1"]
    validate_state(state)


def test_a_changed_node_keeps_its_row_and_pods_and_loses_old_labels() -> None:
    state = state_of(node("n", labels=(("zone", "a"),), images=(("img", 7),)))
    state.apply(PodBound(BoundPod("p", shape()), "n"))
    row = state.row("n")
    taint = Taint("k", "v", TaintEffect.NO_SCHEDULE)
    state.apply(NodeSet(node("n", cpu=1000, labels=(("rack", "r"),), taints=(taint,), unschedulable=True)))
    assert state.row("n") == row
    assert state.labels["zone"].value_ids[row] == ABSENT
    assert state.labels["rack"].values[state.labels["rack"].value_ids[row]] == "r"
    assert state.taint_sets[state.taint_set_ids[row]] == (taint,)
    assert state.is_unschedulable[row]
    assert "img" not in state.images
    assert state.requested[row, CPU_COLUMN] == 500
    assert state.allocatable[row, CPU_COLUMN] == 1000
    validate_state(state)


def test_the_row_of_a_removed_node_is_reused_clean() -> None:
    state = state_of(node("n", labels=(("zone", "a"),)))
    row = state.row("n")
    state.apply(NodeRemoved("n"))
    assert state.row("n") == -1
    assert not state.is_node[row]
    state.apply(NodeSet(node("m")))
    assert state.row("m") == row
    assert state.labels["zone"].value_ids[row] == ABSENT
    validate_state(state)


def test_gpu_shares_are_counted_per_device() -> None:
    gpus = (Gpu("T4", "pci0"), Gpu("T4", "pci1"))
    state = state_of(node("g", hardware=Hardware(gpus=gpus)), node("plain"))
    state.apply(PodBound(BoundPod("p", shape(gpu=GpuRequest(1, 300)), (1,)), "g"))
    row = state.row("g")
    assert state.gpu_free_milli[row].tolist() == [1000, 700]
    assert state.gpu_free_milli[state.row("plain")].tolist() == [-1, -1]
    assert state.gpu_models[state.gpu_model_ids[row]] == "T4"
    state.apply(NodeSet(node("g", cpu=1, hardware=Hardware(gpus=gpus))))
    assert state.gpu_free_milli[row].tolist() == [1000, 700]
    validate_state(state)
    with pytest.raises(StateConflict, match="800 thousandths of GPU 1 of 'g', which has 700 free"):
        state.apply(PodBound(BoundPod("q", shape(gpu=GpuRequest(1, 800)), (1,)), "g"))
    with pytest.raises(StateConflict, match="lost GPU 1"):
        state.apply(NodeSet(node("g", hardware=Hardware(gpus=gpus[:1]))))
    with pytest.raises(InvalidObject, match="GPU 0 of 'plain'"):
        state.apply(PodBound(BoundPod("q", shape(gpu=GpuRequest(1)), (0,)), "plain"))


def test_a_refused_event_changes_nothing() -> None:
    gpus = (Gpu("T4"), Gpu("T4"))
    state = state_of(node("g", hardware=Hardware(gpus=gpus)))
    state.apply(PodBound(BoundPod("p", shape(gpu=GpuRequest(1)), (1,)), "g"))
    before = state.copy()
    refused = [
        PodBound(BoundPod("p", shape()), "g"),
        PodBound(BoundPod("q", shape()), "nowhere"),
        PodBound(BoundPod("q", shape(gpu=GpuRequest(2)), (0, 7)), "g"),
        PodBound(BoundPod("q", PodShape(requests=Resources({"pods": 1}))), "g"),
        PodRemoved("ghost"),
        NodeRemoved("g"),
        NodeRemoved("ghost"),
        NodeSet(node("g", cpu=9, labels=(("new", "label"),), hardware=Hardware(gpus=gpus[:1]))),
        StorageRemoved(StorageClass, "ghost"),
    ]
    for event in refused:
        with pytest.raises((StateConflict, InvalidObject)):
            state.apply(event)
        validate_state(state)
        assert state.sequence == before.sequence
        assert np.array_equal(state.requested, before.requested)
        assert np.array_equal(state.gpu_free_milli, before.gpu_free_milli)
        assert state.node(0) is before.node(0)
        assert "new" not in state.labels


def test_a_namespace_is_removed_once() -> None:
    state = state_of()
    state.apply(NamespaceSet("team", (("color", "red"),)))
    state.apply(NamespaceRemoved("team"))
    assert state.namespaces == {}
    with pytest.raises(StateConflict, match="namespace 'team' is not known"):
        state.apply(NamespaceRemoved("team"))


def test_the_journal_tells_which_rows_changed() -> None:
    state = state_of(node("n1"), node("n2"))
    start = state.sequence
    bound = shape(host_ports=(HostPort("TCP", "127.0.0.1", 80),))
    state.apply(PodBound(BoundPod("p", bound), "n2"))
    state.apply(NamespaceSet("team", ()))
    state.apply(NamespaceRemoved("team"))
    changes = state.changes_since(start)
    assert changes is not None
    assert [(change.kind, change.row) for change in changes] == [
        (ChangeKind.POD, state.row("n2")),
        (ChangeKind.NAMESPACE, -1),
        (ChangeKind.NAMESPACE, -1),
    ]
    assert changes[0].shape is bound
    assert state.changes_since(state.sequence) == []


def test_a_journal_that_was_cut_says_so() -> None:
    state = state_of(node("n"))
    pod = BoundPod("p", shape())
    for _ in range(40_000):
        state.apply(PodBound(pod, "n"))
        state.apply(PodRemoved("p"))
    assert state.changes_since(0) is None
    assert state.changes_since(state.sequence - 3) is not None


def test_storage_objects_come_and_go() -> None:
    state = ClusterState()
    claim = PersistentVolumeClaim("team", "data", ())
    state.apply(StorageSet(claim))
    assert state.storage.claims["team", "data"] is claim
    state.apply(StorageRemoved(PersistentVolumeClaim, "team/data"))
    assert not state.storage.claims


def test_a_snapshot_does_not_follow_and_cannot_be_written() -> None:
    pool = SnapshotPool(state_of(node("n")))
    pool.apply(PodBound(BoundPod("p", shape()), "n"))
    before = pool.snapshot()
    pool.apply(PodRemoved("p"))
    after = pool.snapshot()
    assert before.state.requested[0, CPU_COLUMN] == 500
    assert after.state.requested[0, CPU_COLUMN] == 0
    with pytest.raises(InternalError, match="snapshot"):
        before.state.apply(PodRemoved("p"))
    with pytest.raises(ValueError, match="read-only"):
        before.state.requested[0, 0] = 1
    trial = before.copy_state()
    trial.apply(PodRemoved("p"))
    validate_state(trial)
    assert before.state.requested[0, CPU_COLUMN] == 500


def test_snapshots_reuse_replicas_that_were_given_back() -> None:
    pool = SnapshotPool(state_of(node("n")))
    for turn in range(100):
        pool.apply(PodBound(BoundPod(f"p{turn}", shape(1)), "n"))
        snapshot = pool.snapshot()
        assert snapshot.state.requested[0, CPU_COLUMN] == turn + 1
        if turn % 2:
            snapshot.release()
        del snapshot
    assert pool.full_copies == 1


def test_a_released_snapshot_cannot_be_read() -> None:
    pool = SnapshotPool(state_of(node("n")))
    snapshot = pool.snapshot()
    snapshot.release()
    with pytest.raises(InternalError, match="release"):
        _ = snapshot.state


def test_hoarded_snapshots_stay_right_and_are_counted() -> None:
    pool = SnapshotPool(state_of(node("n")))
    hoard = []
    for turn in range(6):
        pool.apply(PodBound(BoundPod(f"p{turn}", shape(1)), "n"))
        hoard.append(pool.snapshot())
    assert [s.state.requested[0, CPU_COLUMN] for s in hoard] == [1, 2, 3, 4, 5, 6]
    assert pool.full_copies == 6
    hoard.clear()
    assert pool.snapshot().state.requested[0, CPU_COLUMN] == 6


def test_shapes_survive_pickling_into_a_process_with_other_string_hashes() -> None:
    data = pickle.dumps({shape(labels=(("app", "x"),)): "found"})
    script = (
        "import pickle, sys\n"
        "from stowplan.core.domain import PodShape, Resources\n"
        "table = pickle.loads(sys.stdin.buffer.read())\n"
        "key = PodShape(requests=Resources({'cpu': 500, 'memory': 2**20}), labels=(('app', 'x'),))\n"
        "print(table[key])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        input=data,
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": "123"},
    )
    assert result.stdout.strip() == b"found"
