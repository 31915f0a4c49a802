"""Which filter is named: what rejects the pod, then what rules nodes out, then the filters in order."""

from collections.abc import Mapping

import pytest

from stowplan.kube.manifest import feasible_report, load_objects

CORDONED = {
    "kind": "Node",
    "metadata": {"name": "cordoned"},
    "spec": {"unschedulable": True},
    "status": {"allocatable": {"cpu": 1, "memory": "1Gi", "pods": 5}},
}
OPEN = {"kind": "Node", "metadata": {"name": "open"}, "status": {"allocatable": {"cpu": 1, "pods": 5}}}
LATE = {
    "kind": "StorageClass",
    "metadata": {"name": "now"},
    "provisioner": "x",
    "volumeBindingMode": "Immediate",
}
UNBOUND = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "storageClassName": "now",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": 1}},
    },
}


def named(spec: Mapping[str, object], *more: Mapping[str, object]) -> dict[str, str]:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    loaded = load_objects([CORDONED, OPEN, *more, pod])
    verdict = feasible_report(loaded.state, loaded.pending)["pods"]["default/p"]
    refused = verdict["refused"]
    assert isinstance(refused, dict)
    assert all(one["reason"] for one in refused.values())
    return {node: one["filter"] for node, one in refused.items()}


def claim(name: str) -> dict[str, object]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def name_terms(*names: str) -> dict[str, object]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]} for one in names]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_missing_claim_is_named_on_every_node_even_a_cordoned_one() -> None:
    assert named(claim("ghost")) == {"cordoned": "VolumeRestrictions", "open": "VolumeRestrictions"}


def test_a_claim_that_should_be_bound_by_now_is_named_on_every_node() -> None:
    assert named(claim("data"), UNBOUND, LATE) == {"cordoned": "VolumeBinding", "open": "VolumeBinding"}


def test_nodes_that_are_not_named_are_ruled_out_before_they_are_looked_at() -> None:
    assert named(name_terms("open")) == {"cordoned": "NodeAffinity"}
    assert named(name_terms("cordoned")) == {"cordoned": "NodeUnschedulable", "open": "NodeAffinity"}


def test_names_that_exclude_one_another_reject_the_pod() -> None:
    assert named(name_terms("open", "cordoned")) == {"cordoned": "NodeAffinity", "open": "NodeAffinity"}


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": {"disk": "ssd"}}])
def test_without_any_of_that_the_order_of_the_filters_decides(spec: dict[str, object]) -> None:
    assert named(spec)["cordoned"] == "NodeUnschedulable"
