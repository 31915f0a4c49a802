"""Objects of small clusters in which much refers to much: few names, so that they meet."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.live.objects import Json

NAMES = ("a", "b", "c")
SPACES = ("default", "team")
NODES = ("n1", "n2")
KINDS = {  # kind → whether its objects are in namespaces
    "Pod": True,
    "Node": False,
    "Namespace": False,
    "PriorityClass": False,
    "PersistentVolume": False,
    "PersistentVolumeClaim": True,
    "StorageClass": False,
    "CSINode": False,
    "CSIDriver": False,
    "CSIStorageCapacity": True,
    "VolumeAttachment": False,
    "Service": True,
    "ReplicationController": True,
    "ReplicaSet": True,
    "StatefulSet": True,
}

texts = st.sampled_from(["x", "y"])
labels = st.dictionaries(st.sampled_from(["app", "tier"]), texts, max_size=2)
maybe = st.booleans()
quantities = st.sampled_from(["100m", "1", "2"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x.io/chip"]), quantities, max_size=2)


def fields(**of: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A mapping with each of the fields, or without it."""
    return st.fixed_dictionaries({}, optional=of)


selectors = fields(matchLabels=labels)
affinity_terms = st.fixed_dictionaries(
    {"topologyKey": st.just("zone"), "labelSelector": selectors}, optional={"namespaceSelector": selectors}
)
containers = st.builds(
    lambda name, resources, image: {"name": name, "resources": resources, "image": image},
    st.sampled_from(["main", "side"]),
    fields(requests=amounts, limits=amounts),
    texts,
)
volumes = st.one_of(
    st.builds(lambda n: {"name": n, "persistentVolumeClaim": {"claimName": n}}, st.sampled_from(NAMES)),
    st.builds(lambda n: {"name": n, "ephemeral": {"volumeClaimTemplate": {}}}, st.sampled_from(NAMES)),
    st.builds(lambda n: {"name": n, "gcePersistentDisk": {"pdName": n}}, st.sampled_from(NAMES)),
    st.builds(lambda n: {"name": n, "emptyDir": {}}, st.sampled_from(NAMES)),
)
pod_specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=2)},
    optional={
        "nodeName": st.sampled_from([*NODES, "nowhere"]),
        "priority": st.integers(-2, 2),
        "priorityClassName": st.sampled_from(NAMES),
        "schedulerName": texts,
        "hostNetwork": maybe,
        "volumes": st.lists(volumes, max_size=2),
        "affinity": fields(
            podAffinity=fields(
                requiredDuringSchedulingIgnoredDuringExecution=st.lists(affinity_terms, max_size=1)
            )
        ),
        "tolerations": st.lists(fields(key=texts, effect=st.just("NoSchedule")), max_size=1),
        "schedulingGates": st.lists(st.just({"name": "g"}), max_size=1),
    },
)
container_statuses = st.builds(
    lambda name, more: {"name": name, **more},
    st.sampled_from(["main", "side"]),
    fields(allocatedResources=amounts, resources=fields(requests=amounts)),
)
pod_statuses = fields(
    phase=st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"]),
    nominatedNodeName=st.sampled_from(NODES),
    containerStatuses=st.lists(container_statuses, max_size=2, unique_by=lambda status: status["name"]),
    conditions=st.lists(
        st.just({"type": "PodResizePending", "status": "True", "reason": "Infeasible"}), max_size=1
    ),
)
owners = st.builds(
    lambda kind, name: [
        {
            "apiVersion": "apps/v1" if kind.endswith("Set") else "v1",
            "kind": kind,
            "name": name,
            "uid": "u",
            "controller": True,
        }
    ],
    st.sampled_from(["ReplicaSet", "StatefulSet", "ReplicationController"]),
    st.sampled_from(NAMES),
)
claim_specs = st.fixed_dictionaries(
    {"accessModes": st.just(["ReadWriteOnce"])},
    optional={
        "storageClassName": st.sampled_from(NAMES),
        "volumeName": st.sampled_from(NAMES),
        "resources": fields(requests=fields(storage=quantities)),
    },
)
default_marks = st.sampled_from([{}, {"storageclass.kubernetes.io/is-default-class": "true"}])

_BODIES: dict[str, st.SearchStrategy[Json]] = {
    "Pod": st.fixed_dictionaries({"spec": pod_specs, "status": pod_statuses}),
    "Node": fields(
        spec=fields(
            unschedulable=maybe, taints=st.lists(st.just({"key": "k", "effect": "NoSchedule"}), max_size=1)
        ),
        status=fields(
            allocatable=amounts,
            images=st.lists(st.builds(lambda n: {"names": [n], "sizeBytes": 5}, texts), max_size=1),
        ),
    ),
    "Namespace": st.just({}),
    "PriorityClass": st.fixed_dictionaries({"value": st.integers(-9, 9)}, optional={"globalDefault": maybe}),
    "PersistentVolume": fields(
        spec=fields(capacity=fields(storage=quantities), storageClassName=st.sampled_from(NAMES)),
        status=fields(phase=st.sampled_from(["Available", "Bound"])),
    ),
    "PersistentVolumeClaim": st.fixed_dictionaries({"spec": claim_specs}),
    "StorageClass": fields(provisioner=texts),
    "CSINode": fields(
        spec=fields(drivers=st.lists(st.just({"name": "d", "allocatable": {"count": 3}}), max_size=1))
    ),
    "CSIDriver": fields(spec=fields(storageCapacity=maybe)),
    "CSIStorageCapacity": fields(storageClassName=st.sampled_from(NAMES), capacity=quantities),
    "VolumeAttachment": fields(spec=fields(nodeName=st.sampled_from(NODES), attacher=texts)),
    "Service": fields(spec=fields(selector=labels)),
    "ReplicationController": fields(spec=fields(selector=labels)),
    "ReplicaSet": fields(spec=fields(selector=selectors)),
    "StatefulSet": fields(spec=fields(selector=selectors)),
}


@st.composite
def objects(draw: st.DrawFn) -> Json:
    """An object of any kind, pods more often than others; it has no uid yet."""
    kind = draw(st.sampled_from(["Pod"] * 8 + ["Node"] * 3 + list(KINDS)))
    names = NODES if kind in ("Node", "CSINode") else SPACES if kind == "Namespace" else NAMES
    metadata: Json = {
        "name": draw(st.sampled_from(names)),
        "labels": draw(labels),
        "creationTimestamp": draw(st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])),
    }
    if KINDS[kind]:
        metadata["namespace"] = draw(st.sampled_from(SPACES))
    if kind == "StorageClass":
        metadata["annotations"] = draw(default_marks)
    if kind == "Pod":
        metadata |= draw(fields(ownerReferences=owners, deletionTimestamp=st.just("2026-01-03T00:00:00Z")))
    return {"kind": kind, "metadata": metadata, **draw(_BODIES[kind])}
