"""VolumeBinding scoring on a few volumes, worked by hand."""

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    ClusterState,
    PendingTask,
    Phase,
    PodShape,
    StorageSet,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.core.policy.kube.volumes import volume_scores
from stowplan.kube.manifest import load_objects

GIB = 1024**3
NODES = ["a", "b", "c", "d"]


def node(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def storage_class(name: str, provisioner: str) -> dict[str, object]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, size: str, on: str, storage: str = "local") -> dict[str, object]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
        "status": {"phase": "Available"},
    }


def claim(name: str, size: str, storage: str = "local") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": size}},
        },
    }


def reported(name: str, on: str, capacity: str) -> dict[str, object]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": "csi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": on}},
        "capacity": capacity,
    }


DRIVER: dict[str, object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "csi.example"},
    "spec": {"storageCapacity": True},
}


def pod(*claims: str) -> dict[str, object]:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    }


def loaded(*objects: dict[str, object]) -> tuple[ClusterState, PodShape]:
    classes = [storage_class("local", "kubernetes.io/no-provisioner"), storage_class("csi", "csi.example")]
    result = load_objects([*map(node, NODES), *classes, DRIVER, *objects])
    (new,) = result.pending
    return result.state, new.shape


def by_node(state: ClusterState, shape: PodShape) -> dict[str, int]:
    scores = volume_scores(state, shape)
    assert scores is not None
    feasible = CompiledFilters(state, shape).feasible
    return {name: int(scores[state.row(name)]) for name in NODES if feasible[state.row(name)]}


def test_a_claim_leaves_more_of_a_larger_volume() -> None:
    state, shape = loaded(
        claim("data", "2Gi"),
        volume("va", "10Gi", "a"),
        volume("vb", "4Gi", "b"),
        volume("vc", "1Gi", "c"),
        pod("data"),
    )
    assert by_node(state, shape) == {"a": 80, "b": 50}


def test_the_smallest_volume_that_fits_is_the_one_counted() -> None:
    state, shape = loaded(
        claim("data", "2Gi"), volume("va", "10Gi", "a"), volume("va2", "4Gi", "a"), pod("data")
    )
    assert by_node(state, shape) == {"a": 50}


def test_two_claims_of_a_class_add_up_and_take_a_volume_each() -> None:
    state, shape = loaded(
        claim("more", "3Gi"),
        claim("data", "2Gi"),
        volume("va", "4Gi", "a"),
        volume("va2", "6Gi", "a"),
        volume("vb", "10Gi", "b"),
        pod("more", "data"),
    )
    assert by_node(state, shape) == {"a": 50}  # 5 of 10 GiB; b has one volume only


def test_where_nothing_is_found_the_driver_says_what_is_left() -> None:
    state, shape = loaded(
        claim("data", "2Gi", "csi"),
        volume("va", "4Gi", "a", "csi"),
        reported("b", "b", "8Gi"),
        reported("c", "c", "20Gi"),
        reported("d", "d", "1Gi"),
        pod("data"),
    )
    assert by_node(state, shape) == {"a": 50, "b": 75, "c": 90}


def test_classes_have_equal_weight_and_halves_round_up() -> None:
    state, shape = loaded(
        *(claim("x", "2Gi"), volume("vx", "8Gi", "a")),
        *(claim("y", "1Gi", "csi"), volume("vy", "2Gi", "a", "csi")),
        pod("x", "y"),
    )
    assert by_node(state, shape) == {"a": 63}  # (75 + 50) / 2


@pytest.mark.parametrize("claims", [(), ("bound",)])
def test_nothing_to_bind_nothing_to_score(claims: tuple[str, ...]) -> None:
    bound = claim("bound", "2Gi")
    bound["spec"] = {**bound["spec"], "volumeName": "va"}  # type: ignore[dict-item]
    state, shape = loaded(bound, volume("va", "10Gi", "a"), pod(*claims))
    assert volume_scores(state, shape) is None


def test_the_total_follows_storage_that_changes() -> None:
    state, shape = loaded(
        claim("data", "2Gi"), volume("va", "10Gi", "a"), volume("vb", "4Gi", "b"), pod("data")
    )
    workflow = Workflow("w", (Task("new", shape, WorkProfile((Phase(1.0),)), 1.0),))
    task = PendingTask("new", WorkflowProgress("w", workflow, 0.0), 0, 0.0)
    scoring = KubeScoring()
    scoring.begin(CycleView(state, 0.0, [], np.random.default_rng(0)))
    first = scoring.scores(task, CompiledFilters(state, shape)).copy()
    smaller = load_objects([volume("va", "4Gi", "a")]).state.storage.volumes["va"]
    state.apply(StorageSet(smaller))
    again = scoring.scores(task, CompiledFilters(state, shape))
    assert first[state.row("a")] - again[state.row("a")] == 80 - 50
    assert first[state.row("b")] == again[state.row("b")]
