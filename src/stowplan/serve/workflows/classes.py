"""To which class a pod and a node belong, so that what ran before tells about what runs next.

A pod of an Argo workflow has the class of its task (`kube.argo.history_key`). Any other pod has that of its
controller, without the part of the name that is drawn anew for each (`backup-29123456` of a CronJob,
`web-5d4f8c7b9d` of a Deployment), and its main container's image.

A node's class is its label `node.kubernetes.io/instance-type`. Without the label it is made of what the node
can allocate: cores to a tenth, memory to whole GiB (downwards), and extended resources such as GPUs. Two
machines of one kind differ by some MiB in what their kernels leave over; that must not part them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from stowplan.core.domain import (
    CPU,
    MACHINE_TYPE_LABEL,
    MEMORY,
    ClassKey,
    Node,
    WorkShape,
)
from stowplan.kube.argo import NodePath, TaskPod
from stowplan.kube.live.pod import LivePod, MainContainer

__all__ = ["item_of", "node_class_of", "own_class", "shape_of", "within_class"]

_LONGEST_COMMAND: Final = 200  # characters; longer ones are kept as a digest
_GIB: Final = 2**30
# Kubernetes draws names from an alphabet without vowels and without what looks alike.
_DRAWN: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_REPLICA_SET: Final = re.compile(rf"-{_DRAWN}{{1,10}}$")  # the hash of the pod template
_GENERATED: Final = re.compile(rf"-{_DRAWN}{{5}}$")
_SCHEDULED: Final = re.compile(r"-[0-9]{8,10}$")  # a CronJob's: the minute, or the second in old versions
_UUID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def node_class_of(node: Node) -> str:
    """Return what kind of machine a node is."""
    label = node.label(MACHINE_TYPE_LABEL)
    if label:
        return label
    parts = [
        f"{node.allocatable.get(CPU, 0) / 1000:.1f}cpu",
        f"{node.allocatable.get(MEMORY, 0) // _GIB}Gi",
    ]
    extended = sorted(name for name in node.allocatable if "/" in name and node.allocatable[name])
    parts += [f"{node.allocatable[name]}x{name}" for name in extended]
    return " ".join(parts)


def own_class(pod: LivePod) -> ClassKey:
    """Return the class of a pod that is in no workflow that is known."""
    identity = pod.identity
    if isinstance(identity, TaskPod):
        return within_class("", identity)
    if pod.owner is None:
        origin = f"Pod/{_stem(pod.name)}"
    elif pod.owner.kind == "ReplicaSet":
        origin = f"ReplicaSet/{_REPLICA_SET.sub('', pod.owner.name)}"
    elif pod.owner.kind == "Node":  # a static pod, which has its node's name at the end
        origin = f"Node/{pod.name.removesuffix(f'-{pod.owner.name}')}"
    else:
        origin = f"{pod.owner.kind}/{_stem(pod.owner.name)}"
    return ClassKey(origin, _clean(pod.main.image), "")


def _stem(name: str) -> str:
    for drawn in (_UUID, _SCHEDULED, _GENERATED):
        shorter = drawn.sub("", name)
        if shorter != name:
            return shorter
    return name


def within_class(origin: str, pod: TaskPod) -> ClassKey:
    """Return the class of a pod that its workflow's graph does not foresee, or whose graph is not known.

    Without an origin it is what the workflow's name tells: runs that only differ in what Kubernetes draws
    were made from the same.
    """
    if not origin:
        stem = _stem(pod.workflow)
        origin = f"generated/{stem}" if stem != pod.workflow else f"name/{stem}"
    return ClassKey(origin, pod.template_hint, pod.path.place)


def item_of(path: NodePath) -> str:
    """Return the item of the fan-outs that a node is in: numbers, outermost first; empty without any."""
    return ".".join(map(str, path.items))


def shape_of(main: MainContainer) -> WorkShape:
    """Return what a pod's main container tells about its work."""
    command = " ".join(main.command)
    if len(command) > _LONGEST_COMMAND:
        command = f"sha256:{hashlib.sha256(command.encode()).hexdigest()}"
    return WorkShape(
        _clean(main.image), _clean(command), main.cpu_request_milli / 1000, main.memory_request_bytes
    )


def _clean(text: str) -> str:
    """Return a text that every database takes; what is in a pod's specification may be anything."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
