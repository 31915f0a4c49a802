"""Fields that cannot be used: each is named with its object, its path, its value and the mend."""

from typing import Any

import pytest

from stowplan.errors import InvalidObject
from stowplan.kube.manifest import load_objects


def pod(**spec: object) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def affinity(**node_affinity: object) -> dict[str, Any]:
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_affinity}})


def term(**fields: object) -> dict[str, Any]:
    return affinity(nodeSelectorTerms=[fields])


def spread(**fields: object) -> dict[str, Any]:
    complete = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return pod(topologySpreadConstraints=[complete])


def container(**fields: object) -> dict[str, Any]:
    return pod(containers=[{"name": "c", **fields}])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("text", ["'text'", "kind"]),
        ({"metadata": {}}, ["kind", "None"]),
        ({"kind": "Pod", "metadata": {"namespace": "a"}}, ["Pod", "metadata.name"]),
        ({"kind": "Pod", "metadata": {"name": 3}}, ["metadata.name", "3", "quote"]),
        (pod(containers=[]), ["Pod a/p", "spec.containers", "at least one"]),
        (pod(containers={"name": "c"}), ["Pod a/p", "spec.containers", "list"]),
        (pod(containers=["c"]), ["spec.containers[0]", "mapping"]),
        (pod(nodeSelector={"disk": True}), ["spec.nodeSelector[disk]", "True", "quote"]),
        (pod(nodeSelector={5: "x"}), ["spec.nodeSelector", "5", "quote"]),
        (pod(hostNetwork="yes"), ["spec.hostNetwork", "'yes'", "true or false"]),
        (pod(priority="high"), ["spec.priority", "'high'", "whole number"]),
        (
            container(resources={"requests": {"cpu": "-1"}}),
            ["Pod a/p", "spec.containers[0].resources.requests[cpu]", "'-1'", "negative"],
        ),
        (container(resources={"requests": {"cpu": [1]}}), ["requests[cpu]", "quantity"]),
        (container(resources={"requests": {"memory": "1Gb"}}), ["requests[memory]", "'1Gb'", "Gi"]),
        (container(resources={"requests": {"memory": "10E"}}), ["requests[memory]", "'10E'"]),
        (container(resources={"requests": {"pods": "1"}}), ["requests.pods", "leave it out"]),
        (
            pod(containers=[{"name": n, "resources": {"requests": {"memory": "5E"}}} for n in "ab"]),
            ["Pod a/p", "sum", "2^63"],
        ),
        (container(ports=[{"hostPort": 70000}]), ["ports[0].hostPort", "70000", "65535"]),
        (container(ports=[{"hostPort": 80, "protocol": "tcp"}]), ["ports[0].protocol", "'tcp'", "TCP"]),
        (pod(tolerations=[{"operator": "Is"}]), ["spec.tolerations[0].operator", "'Is'", "Exists"]),
        (pod(tolerations=[{"operator": "Exists", "effect": "No"}]), ["tolerations[0].effect", "'No'"]),
        (
            term(matchExpressions=[{"key": "a", "operator": "in"}]),
            ["matchExpressions[0].operator", "'in'", "NotIn"],
        ),
        (term(matchExpressions=[{"operator": "Exists"}]), ["matchExpressions[0].key", "label key"]),
        (
            term(matchExpressions=[{"key": "a", "operator": "In"}]),
            ["matchExpressions[0]", "at least one value"],
        ),
        (
            term(matchExpressions=[{"key": "a", "operator": "In", "values": ["not a label"]}]),
            ["matchExpressions[0].values", "'not a label'", "never"],
        ),
        (
            term(matchExpressions=[{"key": "a", "operator": "Gt", "values": ["-1"]}]),
            ["values", "'-1'", "never"],
        ),
        (term(matchExpressions=[{"key": "a", "operator": "In", "values": [None]}]), ["values[0]", "text"]),
        (term(matchFields=[{"key": "metadata.uid", "operator": "In", "values": ["x"]}]), ["metadata.name"]),
        (
            term(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["x", "y"]}]),
            ["matchFields[0].values", "exactly one"],
        ),
        (spread(maxSkew=0), ["topologySpreadConstraints[0].maxSkew", "0", "at least 1"]),
        (spread(minDomains=0), ["minDomains", "0"]),
        (spread(topologyKey=None), ["topologyKey", "label"]),
        (spread(whenUnsatisfiable="Never"), ["whenUnsatisfiable", "'Never'", "DoNotSchedule"]),
        (spread(nodeTaintsPolicy="honor"), ["nodeTaintsPolicy", "'honor'", "Honor"]),
        (
            pod(
                affinity={
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}
                        ]
                    }
                }
            ),
            ["weight", "0", "100"],
        ),
        (pod(volumes=[{"persistentVolumeClaim": {"claimName": "c"}}]), ["spec.volumes[0].name"]),
        (pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]), ["claimName", "claim"]),
        (
            {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [{"key": "a"}]}},
            ["Node n", "taints[0].effect"],
        ),
        (
            {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"accessModes": ["RWO"]}},
            ["PersistentVolume v", "accessModes[0]", "'RWO'", "ReadWriteOnce"],
        ),
        (
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "status": {"phase": "bound"}},
            ["PersistentVolumeClaim default/c", "status.phase", "'bound'"],
        ),
    ],
)
def test_the_complaint_names_the_object_the_field_the_value_and_the_mend(
    document: object, words: list[str]
) -> None:
    with pytest.raises(InvalidObject) as caught:
        load_objects([document])
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("kind", ["Node", "Pod"])
def test_duplicates_are_refused_by_name(kind: str) -> None:
    document = {**pod(), "kind": kind, "metadata": {"name": "twice"}}
    with pytest.raises(InvalidObject, match=rf"{kind} (default/)?twice occurs twice"):
        load_objects([document, document])
