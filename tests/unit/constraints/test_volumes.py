"""Volumes, by hand: limits, binding, zones and exclusive use."""

import dataclasses

import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    AccessMode,
    BindingMode,
    BoundPod,
    ClusterState,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    InlineDisk,
    LabelSelector,
    Node,
    NodeSelectorTerm,
    NodeSet,
    PersistentVolume,
    PersistentVolumeClaim,
    PodBound,
    PodRemoved,
    PodShape,
    PodVolume,
    Requirement,
    Resources,
    StorageClass,
    StorageSet,
    VolumeAttachment,
)
from stowplan.core.domain.events import StorageObject
from stowplan.core.domain.selectors import Operator

GIB = 2**30
ONCE = (AccessMode.READ_WRITE_ONCE,)
ALONE = (AccessMode.READ_WRITE_ONCE_POD,)
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def cluster(*items: StorageObject) -> ClusterState:
    state = ClusterState()
    for name, zone in (("a", "z1"), ("b", "z2"), ("bare", "")):
        labels = ((HOST, name), (ZONE, zone)) if zone else ((HOST, name),)
        state.apply(NodeSet(Node(name, Resources({"pods": 10}), labels)))
    for item in items:
        state.apply(StorageSet(item))
    return state


def using(*claims: str) -> PodShape:
    return PodShape(volumes=tuple(PodVolume(f"v{number}", claim) for number, claim in enumerate(claims)))


def refusals(state: ClusterState, shape: PodShape) -> dict[str, tuple[str, ...]]:
    compiled = CompiledFilters(state, shape)
    return {name: compiled.all_refusing(row) for name, row in state.rows() if compiled.all_refusing(row)}


def on(key: str, *values: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement(key, Operator.IN, values),)),)


WAIT = StorageClass("wait", "csi.example", BindingMode.WAIT_FOR_FIRST_CONSUMER)
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", BindingMode.WAIT_FOR_FIRST_CONSUMER)


def claim(name: str, **fields: object) -> PersistentVolumeClaim:
    base = PersistentVolumeClaim("default", name, ONCE, GIB, "wait", uid=f"uid-{name}")
    return dataclasses.replace(base, **fields)


def volume(name: str, **fields: object) -> PersistentVolume:
    base = PersistentVolume(name, GIB, ONCE, storage_class="local")
    return dataclasses.replace(base, **fields)


def bound(name: str, to: str) -> PersistentVolumeClaim:
    return claim(name, volume=to, is_fully_bound=True)


def test_a_missing_claim_is_named() -> None:
    state = cluster()
    assert refusals(state, using("c"))["a"] == (
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
    )
    assert "default/c does not exist" in (CompiledFilters(state, using("c")).reason(0) or "")


def test_a_bound_volume_is_only_reached_from_its_nodes() -> None:
    state = cluster(volume("pv", node_affinity=on(HOST, "b")), bound("c", "pv"))
    assert refusals(state, using("c")) == {"a": ("VolumeBinding",), "bare": ("VolumeBinding",)}
    assert "'pv'" in (CompiledFilters(state, using("c")).reason(state.row("a")) or "")


def test_a_migrated_volume_is_reached_by_the_drivers_labels_where_its_plugin_is_migrated() -> None:
    moved = volume(
        "pv",
        node_affinity=on(ZONE, "z1"),
        in_tree_plugin="kubernetes.io/aws-ebs",
        csi_driver="ebs.csi.aws.com",
        csi_handle="vol-1",
        migrated_affinity=on(HOST, "b"),
    )
    migrated = CsiNode("b", migrated_plugins=("kubernetes.io/aws-ebs",))
    state = cluster(moved, bound("c", "pv"))
    assert set(refusals(state, using("c"))) == {"b", "bare"}
    state.apply(StorageSet(migrated))
    assert set(refusals(state, using("c"))) == {"bare"}
    state.apply(StorageSet(dataclasses.replace(moved, csi_handle=None)))
    assert set(refusals(state, using("c"))) == {"b", "bare"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"is_lost": True}, "has lost its volume"),
        ({"is_deleting": True}, "is being deleted"),
        ({"volume": "pv"}, "not bound yet"),
        ({"storage_class": "ghost"}, "not bound yet"),
        ({"volume": "ghost", "is_fully_bound": True}, "'ghost'"),
    ],
)
def test_claims_that_no_node_can_use(fields: dict[str, object], words: str) -> None:
    state = cluster(WAIT, volume("pv"), claim("c", **fields))
    refused = refusals(state, using("c"))
    assert all("VolumeBinding" in filters for filters in refused.values())
    assert len(refused) == 3
    binding = next(
        one for _, one in CompiledFilters(state, using("c"))._filters if one.name == "VolumeBinding"
    )
    assert words in binding.reason(0)


def test_an_ephemeral_claim_must_belong_to_the_pod() -> None:
    shape = PodShape(volumes=(PodVolume("v", "p-v", is_ephemeral=True, pod_uid="me"),))
    assert refusals(cluster(WAIT), shape)["a"] == ("NodeVolumeLimits", "VolumeBinding")
    state = cluster(WAIT, claim("p-v", owner_pod_uid="other"))
    assert refusals(state, shape)["a"] == ("NodeVolumeLimits", "VolumeBinding")
    state.apply(StorageSet(claim("p-v", owner_pod_uid="me")))
    assert refusals(state, shape) == {}


def test_provisioning_follows_the_class() -> None:
    topology = dataclasses.replace(WAIT, allowed_topologies=on(ZONE, "z2"))
    assert refusals(cluster(WAIT, claim("c")), using("c")) == {}
    assert set(refusals(cluster(topology, claim("c")), using("c"))) == {"a", "bare"}
    assert set(refusals(cluster(LOCAL, claim("c", storage_class="local")), using("c"))) == {"a", "b", "bare"}
    chosen = claim("c", selected_node="a")
    assert set(refusals(cluster(WAIT, chosen), using("c"))) == {"b", "bare"}


def test_reported_capacity_must_have_room_where_the_driver_tracks_it() -> None:
    tracked = CsiDriver("csi.example", tracks_capacity=True)
    here = LabelSelector.from_labels({ZONE: "z1"})
    enough = CsiCapacity("x", "wait", here, capacity_bytes=GIB)
    assert len(refusals(cluster(WAIT, claim("c"), tracked), using("c"))) == 3
    assert set(refusals(cluster(WAIT, claim("c"), tracked, enough), using("c"))) == {"b", "bare"}
    small = dataclasses.replace(enough, maximum_volume_bytes=GIB - 1)
    assert len(refusals(cluster(WAIT, claim("c"), tracked, small), using("c"))) == 3
    nowhere = dataclasses.replace(enough, node_topology=None)
    assert len(refusals(cluster(WAIT, claim("c"), tracked, nowhere), using("c"))) == 3
    assert refusals(cluster(WAIT, claim("c", request_bytes=0), tracked), using("c")) == {}


def test_the_smallest_claim_takes_the_smallest_volume_first() -> None:
    both = (*ONCE, AccessMode.READ_WRITE_MANY)
    items = [
        LOCAL,
        volume("small", capacity_bytes=4 * GIB, access_modes=both),
        volume("large", capacity_bytes=9 * GIB, node_affinity=on(HOST, "a", "b")),
        claim("big", storage_class="local", request_bytes=3 * GIB),
        claim("tiny", storage_class="local", request_bytes=GIB, access_modes=both),
    ]
    assert set(refusals(cluster(*items), using("big", "tiny"))) == {"bare"}
    assert refusals(cluster(*items), using("tiny")) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"is_available": False},
        {"is_deleting": True},
        {"capacity_bytes": GIB - 1},
        {"volume_mode": "Block"},
        {"access_modes": (AccessMode.READ_ONLY_MANY,)},
        {"attributes_class": "gold"},
        {"storage_class": "other"},
        {"claim": ("default", "else")},
        {"claim": ("default", "c"), "claim_uid": "of another"},
        {"labels": (("kind", "slow"),)},
    ],
)
def test_volumes_that_do_not_fit_the_claim(fields: dict[str, object]) -> None:
    selector = LabelSelector((Requirement("kind", Operator.NOT_IN, ("slow",)),))
    wanted = claim("c", storage_class="local", selector=selector)
    assert refusals(cluster(LOCAL, volume("pv"), wanted), using("c")) == {}
    assert len(refusals(cluster(LOCAL, volume("pv", **fields), wanted), using("c"))) == 3


def test_a_volume_reserved_for_the_claim_is_the_only_one_that_counts() -> None:
    reserved = volume("mine", claim=("default", "c"), claim_uid="uid-c", node_affinity=on(HOST, "b"))
    items = [LOCAL, volume("free"), reserved, claim("c", storage_class="local")]
    assert set(refusals(cluster(*items), using("c"))) == {"a", "bare"}
    again = [*items, claim("d", storage_class="local")]
    assert set(refusals(cluster(*again), using("c", "d"))) == {"a", "bare"}


def test_zones_and_regions_of_a_bound_volume() -> None:
    def refused_by(labels: tuple[tuple[str, str], ...]) -> set[str]:
        return set(refusals(cluster(volume("pv", labels=labels), bound("c", "pv")), using("c")))

    assert refused_by(((ZONE, "z1"),)) == {"b"}
    assert refused_by(((ZONE, "z1__ z2"),)) == set()
    assert refused_by(((ZONE, "z1__"),)) == set()
    assert refused_by((("failure-domain.beta.kubernetes.io/zone", "z1"),)) == {"b"}
    assert refused_by((("topology.kubernetes.io/region", "r"),)) == {"a", "b"}


def csi(name: str, handle: str) -> PersistentVolume:
    return volume(name, csi_driver="csi.example", csi_handle=handle)


def test_a_volume_counts_once_per_node_and_attachments_count_too() -> None:
    state = cluster(
        WAIT,
        csi("pv1", "h1"),
        csi("pv2", "h2"),
        bound("c1", "pv1"),
        bound("c2", "pv2"),
        claim("new"),
        *(CsiNode(name, (("csi.example", 1),)) for name in ("a", "b", "bare")),
    )
    limits, other, fresh = (CompiledFilters(state, using(name)) for name in ("c1", "c2", "new"))
    state.apply(PodBound(BoundPod("p", using("c1")), "a"))
    for compiled in (limits, other, fresh):
        compiled.refresh()
    assert limits.all_refusing(state.row("a")) == ()
    assert other.all_refusing(state.row("a")) == ("NodeVolumeLimits",)
    assert fresh.all_refusing(state.row("a")) == ("NodeVolumeLimits",)
    assert (
        other.reason(state.row("a")) == "csi.example attaches at most 1 volumes here; 1 are, the pod adds 1"
    )
    assert CompiledFilters(state, using("c2")).all_refusing(state.row("a")) == ("NodeVolumeLimits",)
    state.apply(StorageSet(VolumeAttachment("va", "b", "csi.example", "pv2")))
    for compiled in (limits, other, fresh):
        assert compiled.refresh() is None
    assert limits.all_refusing(state.row("b")) == ("NodeVolumeLimits",)
    state.apply(PodRemoved("p"))
    assert limits.refresh() is not None
    assert other.refresh() is not None
    assert other.all_refusing(state.row("a")) == ()
    assert limits.could_ever_fit()


def test_a_driver_that_asks_for_it_must_be_on_the_node() -> None:
    items = [WAIT, claim("c"), CsiNode("a", (("csi.example", None),))]
    assert refusals(cluster(*items), using("c")) == {}
    required = CsiDriver("csi.example", must_be_on_node=True)
    assert refusals(cluster(*items, required), using("c")) == {
        "b": ("NodeVolumeLimits",),
        "bare": ("NodeVolumeLimits",),
    }


def test_an_exclusive_claim_is_for_one_pod() -> None:
    state = cluster(WAIT, claim("c", access_modes=ALONE))
    compiled = CompiledFilters(state, using("c"))
    assert compiled.feasible.any()
    state.apply(PodBound(BoundPod("other", using("c")), "a"))
    assert compiled.refresh() is None
    assert not compiled.feasible.any()
    assert "ReadWriteOncePod" in (compiled.reason(0) or "")
    assert compiled.could_ever_fit()
    state.apply(PodRemoved("other"))
    compiled.refresh()
    assert compiled.feasible.any()


@pytest.mark.parametrize(
    ("kind", "read_only", "conflicts"),
    [
        ("awsElasticBlockStore", True, True),
        ("gcePersistentDisk", True, False),
        ("gcePersistentDisk", False, True),
        ("iscsi", False, True),
    ],
)
def test_inline_disks(kind: str, read_only: bool, conflicts: bool) -> None:
    disk = InlineDisk(kind, ("disk",), read_only=read_only)
    state = cluster()
    state.apply(PodBound(BoundPod("default/p", PodShape(volumes=(PodVolume("v", disk=disk),))), "a"))
    wanted = PodShape(volumes=(PodVolume("w", disk=dataclasses.replace(disk, read_only=True)),))
    assert refusals(state, wanted) == ({"a": ("VolumeRestrictions",)} if conflicts else {})
    if conflicts:
        assert CompiledFilters(state, wanted).reason(0) == f"{kind} disk is mounted by pod default/p"


def test_a_binding_reserves_the_volumes_it_counts_on() -> None:
    state = cluster(
        LOCAL,
        WAIT,
        volume("pv", node_affinity=on(HOST, "a")),
        claim("c", storage_class="local"),
        claim("d", storage_class="local"),
        claim("new"),
    )
    first, second = CompiledFilters(state, using("c", "new")), CompiledFilters(state, using("d"))
    row = state.row("a")
    assert first.feasible[row]
    assert second.feasible[row]
    assumed = first.storage_to_assume(row)
    assert assumed == [
        volume("pv", node_affinity=on(HOST, "a"), claim=("default", "c"), claim_uid="uid-c"),
        claim("new", selected_node="a"),
    ]
    for item in assumed:
        state.apply(StorageSet(item))
    first.refresh()
    second.refresh()
    assert first.feasible[row]
    assert not first.feasible[state.row("b")]
    assert not second.feasible[row]
    assert CompiledFilters(state, PodShape()).storage_to_assume(row) == []
