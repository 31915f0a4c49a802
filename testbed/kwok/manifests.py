"""The objects that fake nodes need: the nodes themselves, and what kwok may do.

kwok has an identity of its own with just these rights. It is exempt from the API server's flow control, as kwok's own
installation has it: it stands for thousands of kubelets, which each would have a share of their own.
"""

from collections.abc import Iterable, Iterator

from testbed.programs.catalogue import KUBERNETES_VERSION
from testbed.spec import FakeNodes, Json

USER = "stowplan:kwok"
FAKE_NODE = "kwok.x-k8s.io/node"  # this annotation, with the value `fake`, gives a node to kwok
NOT_READY = (
    "stowplan.dev/not-ready"  # this annotation on a fake node makes it say so, with the value as the reason
)
TOLERATION: Json = {"key": FAKE_NODE, "operator": "Equal", "value": "fake", "effect": "NoSchedule"}

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


def nodes(groups: Iterable[FakeNodes]) -> Iterator[Json]:
    """The nodes of all groups, as they are created; kwok's stages make them ready."""
    for group in groups:
        for index in range(group.count):
            yield _node(group, index)


def _node(group: FakeNodes, index: int) -> Json:
    name = f"{group.prefix}-{index:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-0",
        "topology.kubernetes.io/zone": f"zone-{index % group.zones}",
        "node.kubernetes.io/instance-type": group.prefix,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {FAKE_NODE: "fake"}, "labels": labels | dict(group.labels)},
        "spec": {"taints": [_taint(taint) for taint in group.taints]},
        "status": {
            "capacity": dict(group.allocatable),
            "allocatable": dict(group.allocatable),
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


def _taint(text: str) -> Json:
    """A taint from `key=value:Effect`, or from `key:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
