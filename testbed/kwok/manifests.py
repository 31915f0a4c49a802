"""The objects that fake nodes need: the nodes themselves, and what kwok may do.

kwok has an identity of its own with just these rights. It is exempt from the API server's flow control, as
in its own installation: it stands for thousands of kubelets, each of which would have a share of its own.

A node is created as ready: made ready by a stage it would cost three more writes and, with thousands, a
minute in which the node controller taints them all and takes the taints off again. kwok takes up the pods of
a node a moment after it is there; a pod that was bound before only starts that much later.
"""

import datetime as dt
from collections.abc import Iterable, Iterator

from testbed.programs.catalogue import KUBERNETES_VERSION
from testbed.spec import FakeNodes, Json, taint

USER = "stowplan:kwok"
FAKE_NODE = "kwok.x-k8s.io/node"  # this annotation, with the value `fake`, gives a node to kwok
NOT_READY = "stowplan.dev/not-ready"  # a fake node with it says that it is not, with the value as message
NODE_PORT = 10247  # where kwok answers for the kubelets of all its nodes
TOLERATION: Json = {"key": FAKE_NODE, "operator": "Equal", "value": "fake", "effect": "NoSchedule"}

_CONDITIONS = [
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
]
_RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update"],
    },
]


def access() -> Iterator[Json]:
    """What gives kwok's identity its rights and its exemption."""
    metadata = {"name": USER}
    user = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
    rbac = "rbac.authorization.k8s.io/v1"
    yield {"apiVersion": rbac, "kind": "ClusterRole", "metadata": metadata, "rules": _RULES}
    yield {
        "apiVersion": rbac,
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [user],
    }
    everything = ["*"]
    yield {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "kwok"},
        "spec": {
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1000,
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": USER}}],
                    "resourceRules": [
                        {
                            "apiGroups": everything,
                            "resources": everything,
                            "verbs": everything,
                            "clusterScope": True,
                            "namespaces": everything,
                        }
                    ],
                    "nonResourceRules": [{"nonResourceURLs": everything, "verbs": everything}],
                }
            ],
        },
    }


def nodes(groups: Iterable[FakeNodes], address: str, now: dt.datetime) -> Iterator[Json]:
    """The nodes of all groups, as they are created at `now`; all have kwok's address."""
    for group in groups:
        for index in range(group.count):
            yield _node(group, index, address, now)


def _node(group: FakeNodes, index: int, address: str, now: dt.datetime) -> Json:
    name = f"{group.prefix}-{index:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",  # else the node controller adds these, node by node
        "beta.kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-0",
        "topology.kubernetes.io/zone": f"zone-{index % group.zones}",
        "node.kubernetes.io/instance-type": group.prefix,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {FAKE_NODE: "fake"}, "labels": labels | dict(group.labels)},
        "spec": {"taints": [taint(text) for text in group.taints]},
        "status": {
            "capacity": dict(group.allocatable),
            "allocatable": dict(group.allocatable),
            "conditions": [_condition(*condition, now) for condition in _CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": NODE_PORT}},
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"v{KUBERNETES_VERSION}",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "kwok://",
                "kernelVersion": "kwok",
                "osImage": "kwok",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def _condition(kind: str, status: str, reason: str, now: dt.datetime) -> Json:
    instant = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "lastHeartbeatTime": instant,
        "lastTransitionTime": instant,
    }
