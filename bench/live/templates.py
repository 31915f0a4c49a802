"""Pods and nodes as an API server writes them, by the ten thousand: JSON with gaps that are filled fast."""

import copy
import json
import re
from typing import Any

__all__ = ["NODES_HELD", "Json", "Template", "node", "pod"]

NODES_HELD = 5_000
PODS_OF_WORKFLOW = 20

Json = dict[str, Any]


def pod() -> Json:
    """A pod as Argo makes it of one task of a workflow, with `@N@` where pods differ."""
    quantity = {"cpu": "500m", "memory": "1Gi"}
    mounts = [{"name": name, "mountPath": f"/var/run/argo/{name}"} for name in ("ctl", "scratch", "token")]
    environment = [
        {"name": f"ARGO_{name}", "value": "workflow-@N@-2847563920"}
        for name in ("POD_NAME", "POD_UID", "WORKFLOW_NAME", "CONTAINER_NAME", "INSTANCE", "NODE_ID")
    ]
    template = {"name": "task", "inputs": {"parameters": [{"name": "shard", "value": "@N@"}]}, "retries": 3}
    written = {"artifacts": [{"name": name, "path": f"/data/{name}"} for name in ("model", "trace", "log")]}
    environment.append({"name": "ARGO_TEMPLATE", "value": json.dumps(template | {"outputs": written})})

    def container(name: str) -> Json:
        return {
            "name": name,
            "image": "registry.example/workflows/argoexec:v4.0.5",
            "command": ["/var/run/argo/argoexec", "emissary", "--loglevel", "info", "--", "stress"],
            "args": ["--seconds", "90", "--bytes", "1073741824", "--shard", "@N@"],
            "env": environment,
            "resources": {"requests": quantity, "limits": quantity},
            "volumeMounts": mounts,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    owned: Json = {f"f:{name}": {} for name in ("image", "name", "resources", "env", "args", "volumeMounts")}
    return {
        "metadata": {
            "name": "workflow-@N@-task-2847563920",
            "namespace": "workflows",
            "uid": "7d1f3f0a-4c5b-4b0e-9d55-@N@",
            "resourceVersion": "@V@",
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "labels": {"workflows.argoproj.io/completed": "false", "workflows.argoproj.io/workflow": "w-@N@"},
            "annotations": {
                "workflows.argoproj.io/node-id": "workflow-@N@-2847563920",
                "workflows.argoproj.io/node-name": "workflow-@N@.stage-3.task(17:value)",
            },
            "ownerReferences": [
                {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w-@N@", "uid": "9-@N@"}
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-30T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': owned}}},
                }
                for manager in ("workflow-controller", "kube-scheduler", "kubelet")
            ],
        },
        "spec": {
            "initContainers": [container("init")],
            "containers": [container("wait"), container("main")],
            "volumes": [{"name": name, "emptyDir": {}} for name in ("ctl", "scratch", "token")],
            "nodeName": "node-00017",
            "schedulerName": "stowplan",
            "priority": 100,
            "serviceAccountName": "workflow",
            "tolerations": [
                {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
                for what in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Guaranteed",
            "podIP": "10.0.17.3",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T12:00:01Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {
                    "name": name,
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/workflows/argoexec:v4.0.5",
                    "imageID": f"registry.example/workflows/argoexec@sha256:{'a5' * 32}",
                    "containerID": f"containerd://{'b6' * 32}",
                    "state": {"running": {"startedAt": "2026-11-30T12:00:02Z"}},
                }
                for name in ("wait", "main")
            ],
        },
    }


def node() -> Json:
    """A node as a kubelet reports it, without images."""
    made: Json = copy.deepcopy({"metadata": pod()["metadata"], "spec": {"podCIDR": "10.0.0.0/24"}})
    made["metadata"] |= {"name": "node-@N@", "namespace": "", "ownerReferences": []}
    quantities = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    made["status"] = {"capacity": quantities, "allocatable": quantities, "conditions": []}
    return made


class Template:
    """JSON with gaps that are filled fast: number, version, and by number one of the nodes and workflows."""

    def __init__(self, value: Json) -> None:
        parts = re.split(r"@([NVKW])@", json.dumps(value, separators=(",", ":")))
        self._fixed = [part.encode() for part in parts[::2]]
        self._gaps = parts[1::2]

    def fill(self, number: int, version: int) -> bytes:
        """The object of that number at that version."""
        values = {
            "N": b"%08d" % number,
            "V": b"%d" % version,
            "K": b"%08d" % (number % NODES_HELD),
            "W": b"%08d" % (number // PODS_OF_WORKFLOW),
        }
        filled = [self._fixed[0]]
        for gap, fixed in zip(self._gaps, self._fixed[1:], strict=True):
            filled += (values[gap], fixed)
        return b"".join(filled)
