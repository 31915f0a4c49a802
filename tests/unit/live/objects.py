"""Small Kubernetes objects."""

from typing import Any

Json = dict[str, Any]


def pod(name: str = "p", *, uid: str = "", node: str = "", phase: str = "Pending", **spec: object) -> Json:
    """A pod in `default` that asks for 500 milli-cores."""
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "labels": {"app": "x"},
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": requests}],
            "schedulerName": "stowplan",
            "priority": 0,
            **spec,
        },
        "status": {"phase": phase},
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


def node(name: str = "n", cpu: str = "8", **spec: object) -> Json:
    """A node."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
    }


def plain(kind: str, name: str, *, namespace: str = "", **fields: object) -> Json:
    """An object of any other kind."""
    metadata: Json = {"name": name, "uid": f"uid-{kind}-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "metadata": metadata, **fields}
