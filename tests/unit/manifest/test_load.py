"""Kubernetes objects as the API server would store them and kube-scheduler would see them."""

from typing import Any

import pytest

from stowplan.core.domain import (
    BindingMode,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    PodShape,
    Requirement,
    Resources,
    TolerationOperator,
)
from stowplan.core.domain.selectors import Operator
from stowplan.kube.manifest import feasible_report, load_objects

Document = dict[str, Any]


def pod(name: str = "p", **spec: object) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def node(name: str = "n", **status: object) -> Document:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"pods": "10"}, **status}}


def shape_of(document: Document) -> PodShape:
    return load_objects([document]).pending[0].shape


def test_lists_of_lists_are_unpacked_and_other_kinds_counted() -> None:
    documents = [
        None,
        {
            "kind": "List",
            "items": [
                node("a"),
                {"kind": "PodList", "items": [{"metadata": {"name": "p"}, "spec": pod()["spec"]}]},
            ],
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}},
        {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "not-a-node"}},
    ]
    loaded = load_objects(documents)
    assert [name for name, _ in loaded.state.rows()] == ["a"]
    assert [one.key for one in loaded.pending] == ["default/p"]
    assert loaded.ignored == {"Deployment": 1, "Node": 1}


def test_which_pods_are_bound_pending_or_gone() -> None:
    def with_status(name: str, phase: str, **spec: object) -> Document:
        return {**pod(name, **spec), "status": {"phase": phase}}

    deleted = pod("deleted")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving = pod("leaving", nodeName="n")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    loaded = load_objects(
        [
            node(),
            with_status("second", "Pending"),
            with_status("done", "Succeeded", nodeName="n"),
            with_status("running", "Running", nodeName="n"),
            pod("stray", nodeName="ghost"),
            pod("first-by-name"),
            deleted,
            leaving,
        ]
    )
    assert [one.key for one in loaded.pending] == ["default/second", "default/first-by-name"]
    assert set(loaded.state.pods) == {"default/running", "default/leaving"}
    assert loaded.state.pods["default/leaving"][0].is_terminating
    assert loaded.pending[0].uid == "uid-second"


def test_capacity_stands_in_for_allocatable_and_amounts_round_up() -> None:
    loaded = load_objects(
        [
            {
                "kind": "Node",
                "metadata": {"name": "n"},
                "status": {"capacity": {"cpu": "1.0005", "memory": "1.5", "storage": "9"}},
            }
        ]
    )
    assert loaded.state.node(0).allocatable == Resources({"cpu": 1001, "memory": 2})


def test_limits_stand_in_for_requests_and_each_amount_is_stored_in_thousandths() -> None:
    containers = [
        {"name": "a", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "0.0001"}}},
        {"name": "b", "resources": {"requests": {"cpu": "0.0001"}}},
    ]
    shape = shape_of(pod(containers=containers))
    assert dict(shape.requests) == {"cpu": 2, "memory": 2**30}


def test_pod_level_requests_follow_from_containers_and_limits() -> None:
    containers = [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]
    shape = shape_of(pod(containers=containers, resources={"limits": {"cpu": "4", "memory": "1Gi"}}))
    assert dict(shape.requests) == {"cpu": 1000, "memory": 2**30}
    shape = shape_of(
        pod(containers=containers, resources={"requests": {"cpu": "3"}}, overhead={"cpu": "500m"})
    )
    assert dict(shape.requests) == {"cpu": 3500}


def test_a_resized_pod_holds_the_most_of_what_it_has_and_wants() -> None:
    bound = pod(nodeName="n", containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    status = {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    bound["status"] = {"containerStatuses": [status]}
    assert load_objects([node(), bound]).state.requested[0, 0] == 3000
    bound["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    bound["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert load_objects([node(), bound]).state.requested[0, 0] == 3000


def test_host_ports() -> None:
    ports = [
        {"containerPort": 80},
        {"containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1", "protocol": "UDP"},
    ]
    init = [{"name": "i", "ports": [{"containerPort": 82, "hostPort": 82}]}]
    containers = [{"name": "c", "ports": ports}]
    everywhere = HostPort("TCP", "0.0.0.0", 80)  # noqa: S104
    one = HostPort("UDP", "10.0.0.1", 8081)
    assert shape_of(pod(containers=containers, initContainers=init)).host_ports == (one,)
    assert shape_of(pod(containers=containers, hostNetwork=True)).host_ports == (everywhere, one)
    sidecar = [{**init[0], "restartPolicy": "Always"}]
    assert len(shape_of(pod(containers=containers, initContainers=sidecar)).host_ports) == 2


def test_label_keys_are_merged_into_selectors_once() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]},
        "matchLabelKeys": ["app", "absent"],
    }
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "mismatchLabelKeys": ["app"],
        "namespaces": ["b", "a"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shape = shape_of(pod(topologySpreadConstraints=[spread], affinity=affinity))
    assert shape.spread[0].selector == LabelSelector((Requirement("app", Operator.IN, ("x",)),))
    assert (shape.spread[0].min_domains, shape.spread[0].honor_node_affinity) == (1, True)
    assert not shape.spread[0].honor_node_taints
    assert shape.anti_affinity[0].selector == LabelSelector((Requirement("app", Operator.NOT_IN, ("x",)),))
    assert shape.anti_affinity[0].namespaces == ("a", "b")
    without = shape_of(pod(topologySpreadConstraints=[{**spread, "labelSelector": None}]))
    assert without.spread[0].selector is None


def test_small_defaults() -> None:
    shape = shape_of(pod(tolerations=[{"key": "a", "value": "b"}, {"operator": "Exists"}]))
    assert [one.operator for one in shape.tolerations] == [
        TolerationOperator.EQUAL,
        TolerationOperator.EXISTS,
    ]
    assert shape.scheduler_name == "default-scheduler"
    assert shape.node_name is None
    images = [{"name": "a", "image": "busybox"}, {"name": "b", "image": "host:5000/x@sha256:1"}]
    assert shape_of(pod(containers=images)).images == ("busybox:latest", "host:5000/x@sha256:1")


def test_priority_comes_from_the_pod_or_its_class_or_the_global_default() -> None:
    def group(name: str, value: int, *, is_default: bool = False) -> Document:
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": is_default,
        }

    classes = [group("high", 100), group("usual", 7, is_default=True)]
    pods = [pod("a", priority=3), pod("b", priorityClassName="high"), pod("c")]
    assert [one.shape.priority for one in load_objects([*classes, *pods]).pending] == [3, 100, 7]


def test_namespaces_carry_their_name_and_exist_when_something_is_in_them() -> None:
    inside = pod()
    inside["metadata"]["namespace"] = "team-a"
    loaded = load_objects([{"kind": "Namespace", "metadata": {"name": "b", "labels": {"x": "y"}}}, inside])
    name_label = "kubernetes.io/metadata.name"
    assert loaded.state.namespaces["b"] == ((name_label, "b"), ("x", "y"))
    assert loaded.state.namespaces["team-a"] == ((name_label, "team-a"),)
    assert "default" in loaded.state.namespaces


def claim(name: str = "c", **spec: object) -> Document:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], **spec},
    }


def storage_class(name: str, *, is_default: bool = False, created: str = "", **fields: object) -> Document:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if is_default else {}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": "p",
        **fields,
    }


def test_an_unbound_claim_without_a_class_gets_the_newest_default_class() -> None:
    classes = [
        storage_class("old", is_default=True, created="2026-01-01T00:00:00Z"),
        storage_class("new", is_default=True, created="2026-02-01T00:00:00Z"),
        storage_class("other", volumeBindingMode="WaitForFirstConsumer"),
    ]
    loaded = load_objects([*classes, claim("a"), claim("b", storageClassName=""), claim("c", volumeName="v")])
    found = loaded.state.storage
    assert [found.claims["default", name].storage_class for name in "abc"] == ["new", "", None]
    assert found.classes["old"].binding_mode is BindingMode.IMMEDIATE


def test_phases_that_controllers_would_have_set() -> None:
    def volume(name: str, **spec: object) -> Document:
        return {
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, **spec},
        }

    reserved = {"namespace": "default", "name": "c"}
    loaded = load_objects(
        [
            volume("free"),
            volume("reserved", claimRef=reserved),
            volume("held", claimRef={**reserved, "uid": "u"}),
            {**volume("failed"), "status": {"phase": "Failed"}},
        ]
    )
    volumes = loaded.state.storage.volumes
    assert [volumes[name].is_available for name in ("free", "reserved", "held", "failed")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("source", "labels", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk"}}, {}, "ebs.csi.aws.com", None),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {"topology.kubernetes.io/zone": "us-central1-a__us-central1-b"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-central1/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ({"azureDisk": {"diskURI": "/d", "kind": "Managed"}}, {}, "disk.csi.azure.com", "/d"),
        ({"azureDisk": {"diskURI": "/d"}}, {}, "disk.csi.azure.com", None),
        ({"cinder": {"volumeID": "c"}}, {}, "cinder.csi.openstack.org", "c"),
        ({"azureFile": {"shareName": "s"}}, {}, None, None),
    ],
)
def test_volumes_of_in_tree_plugins_become_csi_volumes(
    source: Document, labels: dict[str, str], driver: str | None, handle: str | None
) -> None:
    document = {"kind": "PersistentVolume", "metadata": {"name": "v", "labels": labels}, "spec": source}
    volume = load_objects([document]).state.storage.volumes["v"]
    assert (volume.csi_driver, volume.csi_handle) == (driver, handle)


def test_zone_requirements_of_a_migrated_volume_use_the_drivers_key() -> None:
    term = {
        "matchExpressions": [
            {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["z"]}
        ]
    }
    spec = {
        "awsElasticBlockStore": {"volumeID": "vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    loaded = load_objects([{"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}])
    moved = loaded.state.storage.volumes["v"].migrated_affinity
    assert moved is not None
    assert [requirement.key for requirement in moved[0].expressions] == ["topology.ebs.csi.aws.com/zone"]
    region = {"key": "failure-domain.beta.kubernetes.io/region", "operator": "In", "values": ["r"]}
    term["matchExpressions"].append(region)
    loaded = load_objects([{"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}])
    moved = loaded.state.storage.volumes["v"].migrated_affinity
    assert moved is not None
    assert moved[0].expressions[1].key == "topology.kubernetes.io/region"
    zoned = {"topology.kubernetes.io/zone": "z1__z2"}
    bare = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    loaded = load_objects(
        [{"kind": "PersistentVolume", "metadata": {"name": "v", "labels": zoned}, "spec": bare}]
    )
    assert loaded.state.storage.volumes["v"].migrated_affinity == (
        NodeSelectorTerm((Requirement("topology.ebs.csi.aws.com/zone", Operator.IN, ("z1", "z2")),)),
    )


def test_the_report_judges_each_pod_alone() -> None:
    big = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    documents = [
        node("b", allocatable={"pods": "10", "cpu": "1"}),
        node("a", allocatable={"pods": "10", "cpu": "500m"}),
        pod("p", containers=[big]),
        pod("q", containers=[big]),
    ]
    loaded = load_objects(documents)
    expected = {
        "feasible": ["b"],
        "refused": {
            "a": {"filter": "NodeResourcesFit", "reason": "Insufficient cpu: requests 1, free 500m of 500m"}
        },
    }
    assert feasible_report(loaded.state, loaded.pending) == {
        "pods": {"default/p": expected, "default/q": expected}
    }


def test_what_selects_a_pod_is_its_services_and_its_controller() -> None:
    def selecting(kind: str, selector: object, *, group: str = "", name: str = "s") -> Document:
        version = f"{group}/v1" if group else "v1"
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"selector": selector},
        }

    owned = pod()
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "controller": True}
    owned["metadata"]["ownerReferences"] = [reference]
    service = selecting("Service", {"app": "x"})
    others = [selecting("Service", {"app": "y"}, name="t"), selecting("Service", None, name="u")]
    replicas = selecting("ReplicaSet", {"matchLabels": {"tier": "1"}}, group="apps")
    loaded = load_objects([service, *others, replicas, owned])
    expected = LabelSelector.from_labels({"app": "x"}).and_also(Requirement("tier", Operator.IN, ("1",)))
    assert loaded.pending[0].shape.default_spread_selector == expected
    assert load_objects([*others, pod()]).pending[0].shape.default_spread_selector is None


def test_a_pod_level_resize_counts_what_the_pod_has() -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    bound = pod(nodeName="n", containers=containers, resources={"requests": {"cpu": "1"}})
    bound["status"] = {
        "allocatedResources": {"cpu": "2"},
        "resources": {"requests": {"cpu": "4", "memory": "7"}},
    }
    state = load_objects([node(), bound]).state
    assert (state.requested[0, 0], state.requested[0, 1]) == (4000, 7)
