"""What the scheduler assumes, and every way in which the watch may answer."""

import pytest

from stowplan.core.domain import BoundPod, ClusterState, PodBound, PodRemoved, validate_state
from stowplan.errors import InternalError
from stowplan.kube.live.pod import LivePod
from tests.unit.live.objects import Json, node, pod
from tests.unit.live.wire import World


@pytest.fixture
def world() -> World:
    """Two nodes, and the pod `p` that waits."""
    made = World()
    made.put(node("n1"))
    made.put(node("n2"))
    made.put(pod())
    return made


def place(world: World, name: str = "p", where: str = "n1") -> LivePod:
    """What the engine and the loop do with a placement."""
    live = world.pod(name)
    world.state.apply(PodBound(BoundPod(live.key, live.shape), where))
    world.feed.assume(live, where)
    return live


def node_of(state: ClusterState, key: str = "default/p") -> str | None:
    validate_state(state)
    held = state.pods.get(key)
    return None if held is None else state.node(held[1]).name


def test_an_assumed_pod_waits_still_but_holds_its_node(world: World) -> None:
    live = place(world)
    assert world.feed.is_assumed(live)
    assert world.pod("p").is_waiting
    assert node_of(world.state) == "n1"


def test_the_watch_confirms_silently(world: World) -> None:
    live = place(world)
    before, held = world.state.sequence, world.state.pods["default/p"]
    world.put(pod(node="n1"))
    assert world.state.sequence == before
    assert world.state.pods["default/p"] is held
    assert not world.feed.is_assumed(live)
    assert world.heard.pods[-1][1].node_name == "n1"


def test_labels_that_came_with_the_binding_replace_the_shape(world: World) -> None:
    place(world)
    bound = pod(node="n1")
    bound["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a"
    world.put(bound)
    shape = world.state.pods["default/p"][0].shape
    assert ("topology.kubernetes.io/zone", "a") in shape.labels
    assert shape is world.pod("p").shape
    assert node_of(world.state) == "n1"


def test_bound_elsewhere_it_is_moved(world: World) -> None:
    live = place(world)
    world.put(pod(node="n2"))
    assert node_of(world.state) == "n2"
    assert not world.feed.is_assumed(live)
    assert not world.state.requested[world.state.row("n1")].any()


def test_deleted_it_holds_nothing(world: World) -> None:
    live = place(world)
    world.remove("Pod", "p", "default")
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)
    assert world.heard.gone == [live]


@pytest.mark.parametrize("is_listed", [False, True])
def test_replaced_by_another_of_its_name_it_holds_nothing(world: World, *, is_listed: bool) -> None:
    live = place(world)
    if is_listed:
        world.server.remove(("Pod", "default", "p"))
        world.server.put(pod(uid="another"))
        world.relist("Pod")
    else:
        world.put(pod(uid="another"))
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)
    assert not world.feed.is_assumed(world.pod("p"))
    assert [each.uid for each in world.heard.gone] == ["uid-p"]


@pytest.mark.parametrize("change", ["status", "labels", "nomination"])
def test_other_changes_while_it_waits_leave_it_assumed(world: World, change: str) -> None:
    live = place(world)
    changed = pod()
    if change == "status":
        changed["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        ]
    elif change == "labels":
        changed["metadata"]["labels"]["app"] = "y"
    else:
        changed["status"]["nominatedNodeName"] = "n2"
    world.put(changed)
    assert world.feed.is_assumed(live)
    assert node_of(world.state) == "n1"
    assert world.state.pods["default/p"][0].shape == world.pod("p").shape
    assert not world.state.nominations.on
    world.put(pod(node="n1"))
    assert not world.feed.is_assumed(live)
    assert node_of(world.state) == "n1"


def test_a_list_that_shows_it_unbound_leaves_it_assumed(world: World) -> None:
    live = place(world)
    world.relist("Pod")
    assert world.feed.is_assumed(live)
    assert node_of(world.state) == "n1"


def test_a_list_without_it_takes_it_away(world: World) -> None:
    live = place(world)
    world.server.remove(("Pod", "default", "p"))
    world.relist("Pod")
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)


def terminating() -> Json:
    changed = pod()
    changed["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:10Z"
    return changed


@pytest.mark.parametrize("last", [terminating(), pod(phase="Failed")], ids=["is being deleted", "failed"])
def test_one_that_will_never_be_bound_holds_nothing(world: World, last: Json) -> None:
    live = place(world)
    world.put(last)
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)


def test_when_its_node_goes_the_belief_goes(world: World) -> None:
    live = place(world)
    world.remove("Node", "n1")
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)  # so nobody calls Engine.forget, which would be refused
    world.put(pod(node="n1"))  # it was bound nevertheless
    world.put(node("n1"))
    assert node_of(world.state) == "n1"


def test_a_belief_that_is_given_up_frees_the_node_and_brings_the_nomination_back(world: World) -> None:
    nominated = pod()
    nominated["status"]["nominatedNodeName"] = "n2"
    world.put(nominated)
    live = place(world)
    assert not world.state.nominations.on
    world.state.apply(PodRemoved(live.key))  # as Engine.forget does
    world.feed.drop(live)
    assert node_of(world.state) is None
    assert not world.feed.is_assumed(live)
    assert world.state.nominations.node_of(live.key) == "n2"


def test_a_nominated_pod_that_is_bound_keeps_no_nomination(world: World) -> None:
    nominated = pod()
    nominated["status"]["nominatedNodeName"] = "n1"
    world.put(nominated)
    assert world.pod("p").shape.own_nomination == "default/p"
    place(world)
    bound = pod(node="n1")
    bound["status"]["nominatedNodeName"] = "n1"
    world.put(bound)
    assert world.state.pods["default/p"][0].shape.own_nomination == ""
    assert not world.state.nominations.on


def test_dropping_what_the_watch_has_decided_changes_nothing(world: World) -> None:
    live = place(world)
    world.put(pod(node="n1"))
    before = world.state.sequence
    world.feed.drop(live)
    assert world.state.sequence == before
    assert node_of(world.state) == "n1"


def test_only_a_pod_that_waits_can_be_assumed(world: World) -> None:
    waiting = world.pod("p")
    world.put(pod(node="n1"))
    with pytest.raises(InternalError, match="'default/p' was assumed on 'n2', but it does not wait"):
        world.feed.assume(waiting, "n2")
    world.remove("Pod", "p", "default")
    world.put(pod(uid="another"))
    with pytest.raises(InternalError, match="does not wait"):
        world.feed.assume(waiting, "n1")
