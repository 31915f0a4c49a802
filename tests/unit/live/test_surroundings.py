"""Nodes, namespaces, storage, priority classes, owners and budgets: what they change, and who is told."""

import pytest

from stowplan.core.domain import LabelSelector, PersistentVolumeClaim, StorageSet, validate_state
from stowplan.kube.live.listener import ClusterChange
from tests.unit.live.objects import Json, node, plain, pod
from tests.unit.live.wire import World

DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}


@pytest.fixture
def world() -> World:
    return World()


def changes(world: World) -> list[ClusterChange]:
    """What was told since it was last asked."""
    told = list(world.heard.changes)
    world.heard.changes.clear()
    return told


# ---- nodes ----


def test_pods_wait_for_a_node_that_is_not_seen_yet(world: World) -> None:
    world.put(pod(node="n"))
    assert not world.state.pods
    world.put(node())
    assert list(world.state.pods) == ["default/p"]
    world.remove("Node", "n")
    assert not world.state.pods
    assert world.state.node_count == 0
    world.put({**node(), "metadata": {"name": "n", "uid": "another"}})
    assert list(world.state.pods) == ["default/p"]
    validate_state(world.state)


def test_a_pod_that_went_while_its_node_was_unknown_does_not_come_with_it(world: World) -> None:
    world.put(pod(node="n"))
    world.remove("Pod", "p", "default")
    world.put(node())
    assert not world.state.pods


def test_what_a_kubelet_reports_every_few_seconds_is_no_news(world: World) -> None:
    document = node()
    world.put(document)
    changes(world)
    before = world.state.sequence
    document["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-11-30T12:00:00Z"}]
    document["metadata"]["annotations"] = {"seen": "now"}
    world.put(document)
    assert (world.state.sequence, changes(world)) == (before, [])


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (node(), node(cpu="16"), ClusterChange.NODE_ADDED),
        (node(), node(cpu="4"), ClusterChange.NODE_CHANGED),
        (node(unschedulable=True), node(), ClusterChange.NODE_ADDED | ClusterChange.NODE_CHANGED),
        (node(), node(unschedulable=True), ClusterChange.NODE_CHANGED),
        (
            node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            node(),
            ClusterChange.NODE_ADDED | ClusterChange.NODE_CHANGED,
        ),
        (node(), node(taints=[{"key": "k", "effect": "NoSchedule"}]), ClusterChange.NODE_CHANGED),
    ],
    ids=["more room", "less room", "uncordoned", "cordoned", "ready", "tainted"],
)
def test_what_a_change_of_a_node_is_told_as(
    world: World, before: Json, now: Json, change: ClusterChange
) -> None:
    world.put(before)
    assert changes(world) == [ClusterChange.NODE_ADDED]
    world.put(now)
    assert changes(world) == [change]
    world.remove("Node", "n")
    assert changes(world) == [ClusterChange.NODE_REMOVED]


def test_a_node_that_cannot_be_used_is_gone_until_it_can(world: World) -> None:
    world.put(node())
    world.put(pod(node="n"))
    world.put(node(taints=[{"key": "k", "effect": "Sometimes"}]))
    assert world.state.node_count == 0
    assert "write one of NoSchedule" in world.feed.health["Node"].unusable["n"]
    world.put(node())
    assert list(world.state.pods) == ["default/p"]


# ---- namespaces ----


def test_a_namespace_exists_while_it_is_told_or_something_is_in_it(world: World) -> None:
    def put_namespace(**labels: str) -> None:
        world.put({"kind": "Namespace", "metadata": {"name": "team", "uid": "u", "labels": labels}})

    name = ("kubernetes.io/metadata.name", "team")
    document = pod()
    document["metadata"]["namespace"] = "team"
    world.put(document)
    assert world.state.namespaces["team"] == (name,)
    put_namespace()
    assert changes(world) == [ClusterChange.NAMESPACE]  # the same labels are no news
    put_namespace(color="red")
    assert world.state.namespaces["team"] == (("color", "red"), name)
    world.remove("Namespace", "team")
    assert world.state.namespaces["team"] == (name,)
    world.remove("Pod", "p", "team")
    assert list(world.state.namespaces) == ["default"]
    assert changes(world) == [ClusterChange.NAMESPACE] * 3


# ---- storage ----


def claim(name: str = "c", **spec: object) -> Json:
    return plain(
        "PersistentVolumeClaim", name, namespace="default", spec={"accessModes": ["ReadWriteOnce"], **spec}
    )


def storage_class(name: str, made: str, *, is_default: bool) -> Json:
    metadata = {
        "name": name,
        "uid": f"u-{name}",
        "creationTimestamp": made,
        **(DEFAULT if is_default else {}),
    }
    return {"kind": "StorageClass", "metadata": metadata, "provisioner": "x"}


def class_of(world: World, name: str = "c") -> str | None:
    return world.state.storage.claims["default", name].storage_class


def test_claims_follow_the_default_class(world: World) -> None:
    world.put(claim())
    world.put(claim("own", storageClassName="own"))
    world.put(claim("bound", volumeName="v"))
    assert class_of(world) is None
    world.put(storage_class("old", "2026-01-01T00:00:00Z", is_default=True))
    assert class_of(world) == "old"
    world.put(storage_class("new", "2026-01-02T00:00:00Z", is_default=True))
    assert class_of(world) == "new"
    world.put(claim("late"))
    assert class_of(world, "late") == "new"
    world.put(storage_class("new", "2026-01-02T00:00:00Z", is_default=False))
    assert class_of(world) == "old"
    world.remove("StorageClass", "old")
    assert class_of(world) is None
    assert (class_of(world, "own"), class_of(world, "bound")) == ("own", None)


def test_an_event_without_news_leaves_what_a_placement_reserved(world: World) -> None:
    world.put(claim())
    told = world.state.storage.claims["default", "c"]
    reserved = PersistentVolumeClaim("default", "c", told.access_modes, volume="v", uid=told.uid)
    world.state.apply(StorageSet(reserved))  # as the engine does
    changes(world)
    noisy = claim()
    noisy["metadata"]["annotations"] = {"volume.kubernetes.io/storage-provisioner": "x"}
    world.put(noisy)
    assert world.state.storage.claims["default", "c"] is reserved
    assert changes(world) == []
    world.put(claim(volumeName="another"))
    assert world.state.storage.claims["default", "c"].volume == "another"
    assert changes(world) == [ClusterChange.STORAGE]


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("PersistentVolume", "volumes"),
        ("CSINode", "csi_nodes"),
        ("CSIDriver", "csi_drivers"),
        ("VolumeAttachment", "attachments"),
    ],
)
def test_storage_objects_come_and_go(world: World, kind: str, table: str) -> None:
    world.put(plain(kind, "a"))
    assert list(getattr(world.state.storage, table)) == ["a"]
    world.remove(kind, "a")
    assert not getattr(world.state.storage, table)
    assert changes(world) == [ClusterChange.STORAGE] * 2


# ---- what completes shapes ----


def test_priorities_of_classes_that_come_later(world: World) -> None:
    document = pod(node="n", priorityClassName="high")
    del document["spec"]["priority"]
    plain_pod = pod("q", node="n")
    world.put(node())
    world.put(document)
    world.put(plain_pod)
    untouched = world.pod("q")
    assert world.pod("p").shape.priority == 0
    world.put(plain("PriorityClass", "high", value=100))
    world.put(plain("PriorityClass", "normal", value=5, globalDefault=True))
    assert world.state.pods["default/p"][0].shape.priority == 100
    assert world.heard.pods[-1][1].shape.priority == 100
    world.remove("PriorityClass", "high")
    assert world.pod("p").shape.priority == 5
    assert world.pod("q") is untouched
    assert ClusterChange.PRIORITY_CLASS in changes(world)


def owned(kind: str = "ReplicaSet", group: str = "apps/v1", name: str = "a") -> Json:
    document = pod(node="n")
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": group, "kind": kind, "name": name, "uid": "u", "controller": True}
    ]
    return document


@pytest.mark.parametrize(
    ("kind", "group", "selector"),
    [
        ("ReplicaSet", "apps/v1", {"matchLabels": {"app": "x"}}),
        ("StatefulSet", "apps/v1", {"matchLabels": {"app": "x"}}),
        ("ReplicationController", "v1", {"app": "x"}),
    ],
)
def test_a_controller_that_comes_after_its_pods(world: World, kind: str, group: str, selector: Json) -> None:
    world.put(node())
    world.put(owned(kind, group))
    world.put(pod("q", node="n"))
    world.put(plain(kind, "a", namespace="default", spec={"selector": selector}))
    wanted = LabelSelector.from_labels({"app": "x"})
    assert world.state.pods["default/p"][0].shape.default_spread_selector == wanted
    assert world.state.pods["default/q"][0].shape.default_spread_selector is None
    world.remove(kind, "a", "default")
    assert world.state.pods["default/p"][0].shape.default_spread_selector is None
    assert changes(world)[-2:] == [ClusterChange.OWNERS] * 2


def test_a_pod_that_changes_its_controller_follows_the_new_one(world: World) -> None:
    world.put(owned())
    world.put(owned(name="b"))
    world.put(plain("ReplicaSet", "a", namespace="default", spec={"selector": {"matchLabels": {"app": "x"}}}))
    assert world.pod("p").shape.default_spread_selector is None
    world.put(plain("ReplicaSet", "b", namespace="default", spec={"selector": {"matchLabels": {"app": "y"}}}))
    assert world.pod("p").shape.default_spread_selector == LabelSelector.from_labels({"app": "y"})
    world.remove("Pod", "p", "default")
    world.remove("ReplicaSet", "b", "default")


@pytest.mark.parametrize("is_listed_before", [True, False])
def test_services_select_the_pods_of_their_namespace(world: World, *, is_listed_before: bool) -> None:
    if is_listed_before:
        world.relist("Service")
    world.put(pod())
    other = pod("other")
    other["metadata"]["namespace"] = "team"
    world.put(other)
    world.put(plain("Service", "s", namespace="default", spec={"selector": {"app": "x"}}))
    world.put(plain("Service", "t", namespace="default", spec={"selector": {"app": "y"}}))
    if not is_listed_before:
        world.relist("Service")
    wanted = LabelSelector.from_labels({"app": "x"})
    assert world.pod("p").shape.default_spread_selector == wanted
    assert world.pod("other", "team").shape.default_spread_selector is None
    world.remove("Service", "s", "default")
    assert world.pod("p").shape.default_spread_selector is None


def test_a_status_of_an_owner_is_no_news(world: World) -> None:
    document = plain("ReplicaSet", "a", namespace="default", spec={"selector": {"matchLabels": {"app": "x"}}})
    world.put(document)
    changes(world)
    world.put({**document, "status": {"replicas": 3}})
    assert changes(world) == []


# ---- budgets ----


def test_budgets_are_kept_and_told(world: World) -> None:
    document = plain(
        "PodDisruptionBudget",
        "b",
        namespace="default",
        spec={"selector": {"matchLabels": {"app": "x"}}},
        status={"disruptionsAllowed": 2},
    )
    world.put(document)
    assert world.feed.budgets["default/b"].disruptions_allowed == 2
    world.put({**document, "status": {"disruptionsAllowed": 2, "observedGeneration": 1}})
    assert changes(world) == [ClusterChange.BUDGET]
    world.put({**document, "status": {"disruptionsAllowed": 1}})
    assert world.feed.budgets["default/b"].disruptions_allowed == 1
    world.remove("PodDisruptionBudget", "b", "default")
    assert not world.feed.budgets
    assert changes(world) == [ClusterChange.BUDGET] * 2


# ---- all together ----


def test_it_is_settled_once_every_kind_was_listed(world: World) -> None:
    kinds = list(world.feed.health)
    for kind in kinds:
        assert not world.feed.is_settled
        world.relist(kind)
    assert world.feed.is_settled
    assert {"Pod", "Node", "PodDisruptionBudget", "CSIStorageCapacity", "StatefulSet"} <= set(kinds)
