"""Objects of small clusters in which much refers to much: few names, so that they meet."""

from collections.abc import Callable
from random import Random

from tests.unit.live.objects import Json

NAMES = ("a", "b")
SPACES = ("default", "team")
NODES = ("n1", "n2")
THEMES = (
    ("Node", "Namespace"),
    ("PriorityClass", "Node"),
    ("PersistentVolumeClaim", "StorageClass", "PersistentVolume"),
    ("CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
    ("Service", "Node"),
    ("ReplicationController", "ReplicaSet", "StatefulSet", "Node"),
)
"""Kinds that are at work together with pods: of all kinds at once, too few would meet."""
KINDS = ("Pod", *dict.fromkeys(kind for theme in THEMES for kind in theme))
_NAMESPACED = (
    *("Pod", "PersistentVolumeClaim", "CSIStorageCapacity"),
    *("Service", "ReplicationController", "ReplicaSet", "StatefulSet"),
)


class Maker:
    """Makes objects at random.

    Args:
        random: where it draws from.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def make(self, kind: str) -> Json:
        """An object; it has no uid yet."""
        names = NODES if kind in {"Node", "CSINode"} else SPACES if kind == "Namespace" else NAMES
        metadata: Json = {
            "name": self._one(names),
            "labels": self._labels(),
            "creationTimestamp": self._one(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")),
        }
        if kind in _NAMESPACED:
            metadata["namespace"] = self._one(SPACES)
        if kind == "StorageClass" and self._is(0.5):
            metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        if kind == "Pod":
            metadata |= self._some(ownerReferences=self._owners)
            if self._is(0.15):
                metadata["deletionTimestamp"] = "2026-01-03T00:00:00Z"
        make: Callable[[], Json] = getattr(self, f"_{kind.lower()}", self._selecting)
        return {"kind": kind, "metadata": metadata, **make()}

    # ---- parts ----

    def _is(self, likely: float) -> bool:
        return self._random.random() < likely

    def _one(self, values: tuple[str, ...]) -> str:
        return self._random.choice(values)

    def _text(self) -> str:
        return self._one(("x", "y"))

    def _name(self) -> str:
        return self._one(NAMES)

    def _some(self, **of: Callable[[], object]) -> Json:
        """A mapping with each of the fields, or, one time in three, without it."""
        return {name: make() for name, make in of.items() if self._is(0.67)}

    def _list(self, make: Callable[[], object]) -> list[object]:
        return [make() for _ in range(self._random.randrange(3))]

    def _labels(self) -> Json:
        return self._some(app=self._text, tier=self._text)

    def _amounts(self) -> Json:
        def amount() -> str:
            return self._one(("100m", "1", "2"))

        return self._some(cpu=amount, memory=amount) | ({"x.io/chip": amount()} if self._is(0.3) else {})

    def _selector(self) -> Json:
        return {"matchLabels": {"app": self._text()}} if self._is(0.8) else {}

    def _owners(self) -> list[Json]:
        kind = self._one(("ReplicaSet", "StatefulSet", "ReplicationController"))
        group = "apps/v1" if kind.endswith("Set") else "v1"
        is_controller = self._is(0.9)
        return [
            {"apiVersion": group, "kind": kind, "name": self._name(), "uid": "u", "controller": is_controller}
        ]

    # ---- pods ----

    def _pod(self) -> Json:
        return {"spec": self.pod_spec(), "status": self.pod_status()}

    def pod_spec(self) -> Json:
        names = ["main", "side"][: self._random.randrange(1, 3)]
        spec: Json = {"containers": [self._container(name) for name in names]}
        spec |= self._some(
            schedulerName=self._text,
            priorityClassName=self._name,
            volumes=lambda: self._list(self._volume),
            tolerations=lambda: [{"key": self._text(), "effect": "NoSchedule"}],
        )
        if self._is(0.4):
            spec["priority"] = self._random.randrange(-2, 3)
        if self._is(0.5):
            spec["nodeName"] = self._one((*NODES, *NODES, "nowhere"))
        if self._is(0.2):
            spec["schedulingGates"] = [{"name": "g"}]
        if self._is(0.2):
            term = {"topologyKey": "zone", "labelSelector": self._selector()}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return spec

    def pod_status(self) -> Json:
        status: Json = {
            "phase": self._one(("Pending", "Pending", "Running", "Running", "Succeeded", "Failed"))
        }
        if self._is(0.3):
            status["nominatedNodeName"] = self._one(NODES)
        if self._is(0.4):
            status["containerStatuses"] = [
                {"name": "main", **self._some(allocatedResources=self._amounts, resources=self._given)}
            ]
        if self._is(0.2):
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        return status

    def _given(self) -> Json:
        return self._some(requests=self._amounts)

    def _container(self, name: str) -> Json:
        return {
            "name": name,
            "resources": self._some(requests=self._amounts, limits=self._amounts),
            "image": self._text(),
        }

    def _volume(self) -> Json:
        name = self._name()
        kinds: tuple[Json, ...] = (
            {"persistentVolumeClaim": {"claimName": name}},
            {"ephemeral": {"volumeClaimTemplate": {}}},
            {"gcePersistentDisk": {"pdName": name}},
            {"emptyDir": {}},
        )
        return {"name": name, **self._random.choice(kinds)}

    # ---- other kinds ----

    def _node(self) -> Json:
        spec: Json = {"unschedulable": self._is(0.5)}
        if self._is(0.3):
            spec["taints"] = [{"key": self._text(), "effect": "NoSchedule"}]
        images = [{"names": [self._text()], "sizeBytes": 5}]
        return {"spec": spec, "status": self._some(allocatable=self._amounts, images=lambda: images)}

    def _namespace(self) -> Json:
        return {}

    def _priorityclass(self) -> Json:
        return {"value": self._random.randrange(-9, 10), "globalDefault": self._is(0.4)}

    def _persistentvolume(self) -> Json:
        spec = self._some(storageClassName=self._name, capacity=lambda: {"storage": "1Gi"})
        return {"spec": spec, "status": {"phase": self._one(("Available", "Bound"))}}

    def _persistentvolumeclaim(self) -> Json:
        spec: Json = {"accessModes": ["ReadWriteOnce"]}
        if self._is(0.3):
            spec["storageClassName"] = self._name()
        if self._is(0.3):
            spec["volumeName"] = self._name()
        return {"spec": spec}

    def _storageclass(self) -> Json:
        return {"provisioner": self._text()}

    def _csinode(self) -> Json:
        return {"spec": {"drivers": [{"name": self._text(), "allocatable": {"count": 3}}]}}

    def _csidriver(self) -> Json:
        return {"spec": {"storageCapacity": self._is(0.5)}}

    def _csistoragecapacity(self) -> Json:
        return {"storageClassName": self._name(), "capacity": self._one(("1Gi", "2Gi"))}

    def _volumeattachment(self) -> Json:
        return {"spec": {"nodeName": self._one(NODES), "attacher": self._text()}}

    def _service(self) -> Json:
        return {"spec": self._some(selector=lambda: {"app": self._text()})}

    _replicationcontroller = _service

    def _selecting(self) -> Json:
        return {"spec": self._some(selector=self._selector)}
