"""A case's objects in a real API server: made as they are written, read back as it holds them, taken away.

No controller runs beside the API server, so what controllers would write is written here: the status of
volumes, claims and pods, and the deletion of what is being deleted (a finalizer keeps it). The server gives
uids itself, so references to the uid of another object of the case are turned into its real one.

Every pending pod is created with a scheduling gate more, so that none is looked at before its turn; a gated
pod that is nominated for a node counts there all the same (`PriorityQueue.addPod`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from lightkube import ApiError, Client
from lightkube.core.resource import NamespacedResource, api_info
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource
from lightkube.resources import (
    apps_v1,
    core_v1,
    node_v1,
    policy_v1,
    resource_v1,
    scheduling_v1,
    storage_v1,
)
from lightkube.types import CascadeType, PatchType

from testbed.differential.real_room import RoomMade, room_between
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.waiting import wait_for

__all__ = ["DISABLED_ADMISSION", "HELD", "PendingPod", "RealObjects"]

HELD: Final = "testbed.stowplan.io/held"
LOWEST: Final = "testbed-lowest"
LOWEST_PRIORITY: Final = -2_000_000_000
PARALLEL_REQUESTS: Final = 4
SECONDS_UNTIL_SEEN: Final = 10.0

DISABLED_ADMISSION: Final = ("ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition")
"""Admission plugins whose work a controller must complete: service accounts to be made, finalizers and the
not-ready taint of a new node to be lifted."""


def _plain(resource: Any) -> Any:  # noqa: ANN401  (any of lightkube's classes)
    """Return a class of the same resource whose objects are plain mappings.

    lightkube's own refuses what the API server sends of a CSINode without drivers (`drivers: null`).
    """
    base = GenericNamespacedResource if issubclass(resource, NamespacedResource) else GenericGlobalResource
    parts: dict[str, Any] = {"_api_info": api_info(resource)}
    status = getattr(resource, "Status", None)
    if status is not None:
        parts["Status"] = type("Status", (base,), {"_api_info": api_info(status)})
    return type(resource.__name__, (base,), parts)


Pod = _plain(core_v1.Pod)
PriorityClass = _plain(scheduling_v1.PriorityClass)
Namespace = _plain(core_v1.Namespace)
Claim = _plain(core_v1.PersistentVolumeClaim)

# In the order in which they are made: admission looks at the classes, a later object refers to a former one.
KINDS: Final[dict[str, Any]] = {
    "Namespace": Namespace,
    "PriorityClass": PriorityClass,
    "StorageClass": _plain(storage_v1.StorageClass),
    "RuntimeClass": _plain(node_v1.RuntimeClass),
    "CSIDriver": _plain(storage_v1.CSIDriver),
    "DeviceClass": _plain(resource_v1.DeviceClass),
    "Node": _plain(core_v1.Node),
    "CSINode": _plain(storage_v1.CSINode),
    "Service": _plain(core_v1.Service),
    "VolumeAttachment": _plain(storage_v1.VolumeAttachment),
    "CSIStorageCapacity": _plain(storage_v1.CSIStorageCapacity),
    "ResourceSlice": _plain(resource_v1.ResourceSlice),
    "ResourceClaim": _plain(resource_v1.ResourceClaim),
    "ReplicationController": _plain(core_v1.ReplicationController),
    "ReplicaSet": _plain(apps_v1.ReplicaSet),
    "StatefulSet": _plain(apps_v1.StatefulSet),
    "PodDisruptionBudget": _plain(policy_v1.PodDisruptionBudget),
    "Pod": Pod,
    "PersistentVolumeClaim": Claim,
    "PersistentVolume": _plain(core_v1.PersistentVolume),
}
_IN_A_ROW: Final = ("Namespace", "PriorityClass", "StorageClass", "RuntimeClass", "CSIDriver")
_WITH_STATUS: Final = (
    "Pod",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "ResourceClaim",
    "PodDisruptionBudget",
)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that is held until it is released.

    Attributes:
        manifest: As the case has it.
        uid: What the API server gave it.
    """

    manifest: Json
    uid: str

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.manifest["metadata"]["namespace"]

    @property
    def name(self) -> str:
        """Its name."""
        return self.manifest["metadata"]["name"]

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def nominated_node(self) -> str | None:
        """The node that it is nominated for, where others then count it."""
        return self.manifest.get("status", {}).get("nominatedNodeName")

    @property
    def may_never_be_queued(self) -> bool:
        """Whether it has what can keep a pod from being looked at, even when it is released."""
        return bool(
            self.manifest["spec"].get("schedulingGates") or self.manifest["spec"].get("resourceClaims")
        )


class RealObjects:
    """The objects of one case after the other in an API server without controllers."""

    def __init__(self, client: Client) -> None:
        """Use a client with all rights."""
        self._client: Any = client  # what its methods take depends on a resource that varies here
        self._objects: Sequence[Json] = ()
        self._uids: dict[str, str] = {}
        self.pending: dict[str, PendingPod] = {}

    def make(self, objects: Sequence[Json]) -> None:
        """Make a case's objects, and wait until admission has seen its classes.

        Raises:
            ApiError: The API server refuses one; what was made before is there until `remove`.
            ComponentFailed: One is of a kind that is not known here, or admission did not see the classes.
        """
        unknown = sorted({manifest["kind"] for manifest in objects} - KINDS.keys())
        if unknown:
            raise ComponentFailed(f"{unknown[0]} is no kind that cases have so far: add it to KINDS")
        self._objects = objects
        self._uids = {}
        self.pending = {}
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            for kind in KINDS:
                manifests = list(self._of_kind(kind))
                if kind in _IN_A_ROW:
                    for manifest in manifests:
                        self._create(manifest)
                else:
                    for _ in pool.map(self._create, manifests):
                        pass
                if kind == "StorageClass":
                    self._wait_for_admission()
            for kind in _WITH_STATUS:
                for _ in pool.map(self._complete, self._of_kind(kind)):
                    pass

    def read_back(self) -> list[Json]:
        """Return the case's objects as the API server holds them, without what `make` added to them.

        The lists are consistent reads, so the server's caches, which a scheduler that starts afterwards is
        served from, hold everything then.
        """
        held = {
            (kind, *_full_name(listed)): listed
            for kind in dict.fromkeys(manifest["kind"] for manifest in self._objects)
            for listed in self._list(KINDS[kind])
        }
        found: list[Json] = []
        for manifest in self._objects:
            kind, place = manifest["kind"], _full_name(manifest)
            one = held.get((kind, *place))
            if one is None:
                raise ComponentFailed(
                    f"the API server does not hold {kind} {'/'.join(place)}, which was made"
                )
            found.append({"apiVersion": manifest["apiVersion"], "kind": kind, **one})  # lists leave them out
            if kind == "Pod" and not one["spec"].get("nodeName"):
                _unhold(one)
        return found

    def release(self, pod: PendingPod) -> None:
        """Let kube-scheduler have a pod."""
        gates = pod.manifest["spec"].get("schedulingGates")
        self._client.patch(
            Pod,
            pod.name,
            {"spec": {"schedulingGates": gates}},
            namespace=pod.namespace,
            patch_type=PatchType.MERGE,
        )

    def condition(self, pod: PendingPod) -> tuple[str, str]:
        """Return the reason and the message of a pod's condition PodScheduled; both empty without one."""
        held: Json = self._client.get(Pod, pod.name, namespace=pod.namespace)
        for condition in held["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled":
                return condition.get("reason", ""), condition.get("message", "")
        return "", ""

    def room_made(self, pod: PendingPod) -> RoomMade:
        """Return what was done to make room for a pod."""
        before = {"/".join(_full_name(one)): one for one in self._of_kind("Pod")}
        return room_between(before, {"/".join(_full_name(one)): one for one in self._list(Pod)}, pod.key)

    def take_away(self, pod: PendingPod) -> None:
        """Delete a pending pod."""
        self._client.delete(Pod, pod.name, namespace=pod.namespace, grace_period=0)
        del self.pending[pod.key]

    def hold_again(self, pod: PendingPod) -> None:
        """Make a pod that was taken away anew, so that its nomination counts again."""
        self._create(pod.manifest)
        self._complete(pod.manifest)

    def make_last(self, namespace: str) -> PendingPod:
        """Make a pod, not held, that kube-scheduler looks at after all others."""
        manifest: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": LOWEST, "namespace": namespace},
            "spec": {"priorityClassName": LOWEST, "containers": [{"name": "c", "image": "img"}]},
        }
        pod = PendingPod(manifest, self._client.create(Pod(manifest))["metadata"]["uid"])
        self.pending[pod.key] = pod
        return pod

    def remove(self) -> None:
        """Take everything away, whatever of it was made.

        Raises:
            ComponentFailed: Something is still there.
        """
        namespaces = self._namespaces()
        made = {manifest["kind"] for manifest in self._objects} | {"Pod"}
        for manifest in self._objects:
            if manifest["metadata"].get("finalizers"):
                self._lift_finalizers(manifest)
        for kind, resource in reversed(KINDS.items()):
            if kind == "Namespace" or kind not in made:
                continue
            places: list[Json] = [{}]
            if issubclass(resource, NamespacedResource):
                places = [{"namespace": namespace} for namespace in namespaces]
            elif kind == "PriorityClass":  # the system's own are among them
                continue
            # In the background: in the foreground some would wait for a collector of garbage to release them.
            at_once = {"grace_period": 0, "cascade": CascadeType.BACKGROUND}
            for place in places:
                self._client.deletecollection(resource, **at_once, **place)
        for name in (*self._names("PriorityClass"), LOWEST):
            self._forget(lambda name=name: self._client.delete(PriorityClass, name))
        for name in self._names("Namespace"):
            self._forget(lambda name=name: self._client.delete(Namespace, name))
            self._forget(
                lambda name=name: self._client.replace(
                    core_v1.Namespace.Finalize.from_dict(_without_finalizers(name))
                )
            )
        self._check_empty(made - {"Namespace", "PriorityClass"})

    # ---- making ----

    def _of_kind(self, kind: str) -> Iterator[Json]:
        return (manifest for manifest in self._objects if manifest["kind"] == kind)

    def _create(self, manifest: Json) -> None:
        wanted = self._with_real_uids(manifest)
        is_pending = manifest["kind"] == "Pod" and "nodeName" not in manifest["spec"]
        if is_pending:
            gates = [{"name": HELD}, *manifest["spec"].get("schedulingGates", ())]
            wanted = {**wanted, "spec": {**wanted["spec"], "schedulingGates": gates}}
        uid: str = self._client.create(KINDS[manifest["kind"]](wanted))["metadata"]["uid"]
        if "uid" in manifest["metadata"]:
            self._uids[manifest["metadata"]["uid"]] = uid
        if is_pending:
            pod = PendingPod(manifest, uid)
            self.pending[pod.key] = pod

    def _with_real_uids(self, manifest: Json) -> Json:
        """Return the manifest to send: without what only the server sets, references by real uids."""
        metadata = {
            key: value
            for key, value in manifest["metadata"].items()
            if key not in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        }
        if "ownerReferences" in metadata:
            metadata["ownerReferences"] = [self._real(owner) for owner in metadata["ownerReferences"]]
        wanted = {**manifest, "metadata": metadata}
        if manifest["kind"] == "PersistentVolume" and "claimRef" in manifest["spec"]:
            spec = {**manifest["spec"], "claimRef": self._real(manifest["spec"]["claimRef"])}
            wanted["spec"] = spec
        return wanted

    def _real(self, reference: Json) -> Json:
        if "uid" not in reference:
            return reference
        return {**reference, "uid": self._uids.get(reference["uid"], reference["uid"])}

    def _complete(self, manifest: Json) -> None:
        """Write what only the status subresource takes, then mark as being deleted what is to be."""
        resource, metadata = KINDS[manifest["kind"]], manifest["metadata"]
        place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
        if "status" in manifest:
            self._client.patch(
                resource.Status,
                metadata["name"],
                {"status": manifest["status"]},
                patch_type=PatchType.MERGE,
                **place,
            )
        if "deletionTimestamp" in metadata:
            grace_s = metadata.get("deletionGracePeriodSeconds")
            self._client.delete(resource, metadata["name"], grace_period=grace_s, **place)

    def _wait_for_admission(self) -> None:
        """Wait until admission, which has caches of its own, knows the classes of this case and no others."""
        lowest: Json = {"metadata": {"name": LOWEST}, "value": LOWEST_PRIORITY}
        self._client.create(PriorityClass(lowest))
        pod: Json = {
            "metadata": {"name": LOWEST, "namespace": "default"},
            "spec": {"priorityClassName": LOWEST, "containers": [{"name": "c", "image": "img"}]},
        }

        def is_class_known() -> bool:
            try:
                self._client.create(Pod(pod), dry_run=True)
            except ApiError as refused:
                if refused.status.code == 403:
                    return False
                raise
            return True

        wait_for("admission knows the priority classes", is_class_known, SECONDS_UNTIL_SEEN)
        default = next((c["metadata"]["name"] for c in self._of_kind("StorageClass") if _is_default(c)), None)
        claim: Json = {
            "metadata": {"name": LOWEST, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        }

        def is_default_known() -> bool:
            made: Json = self._client.create(Claim(claim), dry_run=True)
            return made["spec"].get("storageClassName") == default

        wait_for("admission knows the default storage class", is_default_known, SECONDS_UNTIL_SEEN)

    # ---- taking away ----

    def _names(self, kind: str) -> list[str]:
        return [manifest["metadata"]["name"] for manifest in self._of_kind(kind)]

    def _namespaces(self) -> list[str]:
        spaces = (manifest["metadata"].get("namespace") for manifest in self._objects)
        return sorted({space for space in spaces if space})

    def _lift_finalizers(self, manifest: Json) -> None:
        metadata = manifest["metadata"]
        place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
        patch = {"metadata": {"finalizers": None}}
        self._forget(
            lambda: self._client.patch(
                KINDS[manifest["kind"]], metadata["name"], patch, patch_type=PatchType.MERGE, **place
            )
        )

    @staticmethod
    def _forget(request: Any) -> None:  # noqa: ANN401  (whatever lightkube returns)
        """Send a request about an object that may be gone already, or never was."""
        try:
            request()
        except ApiError as error:
            if error.status.code != 404:
                raise

    def _check_empty(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            left = self._list(KINDS[kind])
            if kind == "Service":
                left = [
                    one for one in left if _full_name(one) != ("default", "kubernetes")
                ]  # the server's own
            if left:
                name = "/".join(_full_name(left[0]))
                raise ComponentFailed(f"{kind} {name} was deleted and is still there")

    def _list(self, resource: Any) -> list[Json]:  # noqa: ANN401  (any of KINDS)
        everywhere = {"namespace": "*"} if issubclass(resource, NamespacedResource) else {}
        return [dict(item) for item in self._client.list(resource, **everywhere)]


def _full_name(manifest: Json) -> tuple[str, ...]:
    metadata = manifest["metadata"]
    return (metadata["namespace"], metadata["name"]) if metadata.get("namespace") else (metadata["name"],)


def _unhold(pod: Json) -> None:
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != HELD]
    if gates:
        pod["spec"]["schedulingGates"] = gates
    else:
        del pod["spec"]["schedulingGates"]


def _is_default(storage_class: Json) -> bool:
    annotations = storage_class["metadata"].get("annotations", {})
    return annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


def _without_finalizers(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"finalizers": []}}
