"""The queue by example: back-off, hints, gates, what happens while a pod is in flight."""

import pytest

from stowplan.core.constraints import FILTERS
from stowplan.core.decoder import CLOSED
from stowplan.core.domain import PodShape
from stowplan.kube.live.listener import ClusterChange
from stowplan.serve.scheduler.hints import _HELP, POLICY, Happening, happenings_of, that_help
from stowplan.serve.scheduler.queue import Place, SchedulingQueue
from tests.scheduler_cases import live_pod, shape


def test_every_filter_has_hints() -> None:
    assert set(_HELP) == {*FILTERS, CLOSED, POLICY}


@pytest.mark.parametrize(
    ("refused_by", "happened", "helps"),
    [
        (["NodeResourcesFit"], Happening.POD_GONE, True),
        (["NodeResourcesFit"], Happening.STORAGE, False),
        (["TaintToleration"], Happening.POD_GONE, False),
        (["TaintToleration"], Happening.NODE_CHANGED, True),
        (["TaintToleration", "NodeResourcesFit"], Happening.POD_GONE, True),
        (["VolumeBinding"], Happening.STORAGE, True),
        (["InterPodAffinity"], Happening.POD_BOUND, True),
        (["InterPodAffinity"], Happening.NAMESPACE, True),
        (["DynamicResources"], Happening.NODE_ADDED, False),
        ([], Happening.NODE_ADDED, True),
        ([], Happening.POD_GONE, False),
        (["a filter of the future"], Happening.STORAGE, True),
    ],
)
def test_what_helps_whom(refused_by: list[str], happened: Happening, helps: bool) -> None:
    assert bool(that_help(refused_by) & happened) is helps


def test_changes_of_the_cluster_that_mean_nothing_to_placement_wake_nobody() -> None:
    assert happenings_of(ClusterChange.BUDGET | ClusterChange.OWNERS) == Happening(0)
    both = happenings_of(ClusterChange.NODE_ADDED | ClusterChange.STORAGE)
    assert both == Happening.NODE_ADDED | Happening.STORAGE


def test_a_pod_that_fails_again_and_again_backs_off_longer_each_time_up_to_ten_seconds() -> None:
    queue = SchedulingQueue()
    entry = queue.set(live_pod("a"), 0.0)
    waits: list[float] = []
    now_s = 0.0
    for _ in range(6):
        queue.placed(entry)
        queue.fail(entry, now_s)
        due_s = queue.next_due_s()
        assert due_s is not None
        waits.append(due_s - now_s)
        assert queue.advance(due_s - 0.001) == 0
        assert queue.advance(due_s) == 1
        now_s = due_s
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_pod_that_found_no_node_waits_for_what_can_help_it_and_five_minutes_at_most() -> None:
    queue = SchedulingQueue()
    entry = queue.set(live_pod("a"), 0.0)
    queue.refuse(entry, ["NodeResourcesFit"], 10.0)
    assert not queue.wake(Happening.STORAGE, "claim")
    assert queue.admit(lambda _: True) == 0
    assert queue.wake(Happening.POD_GONE, "end")
    assert queue.admit(lambda _: False) == 0
    assert queue.ready() == []
    assert queue.wake(Happening.POD_GONE, "end")
    assert queue.admit(lambda shape: shape is entry.pod.shape) == 1
    assert queue.ready() == [entry]
    queue.refuse(entry, ["NodeResourcesFit"], 20.0)
    assert queue.advance(319.0) == 0
    assert queue.advance(320.0) == 1


def test_one_question_per_shape_is_enough_for_many_pods() -> None:
    queue = SchedulingQueue()
    shapes = (shape(100), shape(200))
    for number in range(100):
        queue.refuse(queue.set(live_pod(f"p{number}", shapes[number % 2]), 0.0), ["NodeResourcesFit"], 1.0)
    queue.wake(Happening.POD_GONE, "end")
    queue.wake(Happening.POD_GONE, "end")
    asked: list[PodShape] = []
    assert queue.admit(lambda shape: asked.append(shape) or shape == shapes[0]) == 50
    assert sorted(asked, key=lambda shape: shape.requests["cpu"]) == list(shapes)
    assert queue.count(Place.UNSCHEDULABLE) == 50


def test_what_happened_while_room_was_sought_is_not_lost() -> None:
    queue = SchedulingQueue()
    entry = queue.set(live_pod("a"), 0.0)
    queue.begin(entry)
    queue.wake(Happening.POD_GONE, "end")
    queue.refuse(entry, ["NodeResourcesFit"], 1.0)
    assert entry.place is Place.ACTIVE
    queue.begin(entry)  # the event is used up
    queue.refuse(entry, ["NodeResourcesFit"], 2.0)
    assert entry.place is Place.UNSCHEDULABLE


def test_a_gated_pod_is_ready_when_its_gate_is_lifted() -> None:
    queue = SchedulingQueue()
    entry = queue.set(live_pod("a", shape(scheduling_gates=("g",))), 5.0)
    assert entry.place is Place.GATED
    assert not queue.wake(~Happening(0), "anything")
    queue.set(live_pod("a"), 9.0)
    assert (entry.place, entry.ready_s) == (Place.ACTIVE, 9.0)


def test_an_outcome_that_comes_after_the_pod_was_replaced_changes_nothing_about_its_namesake() -> None:
    queue = SchedulingQueue()
    old = queue.set(live_pod("a", uid="old"), 0.0)
    queue.placed(old)
    new = queue.set(live_pod("a", uid="new"), 1.0)
    queue.fail(old, 2.0)
    queue.refuse(old, ["NodeResourcesFit"], 2.0)
    assert queue.get("default/a") is new
    assert (new.place, new.failures, len(queue)) == (Place.ACTIVE, 0, 1)
    assert queue.next_due_s() is None


def test_arrival_decides_and_then_the_key() -> None:
    queue = SchedulingQueue()
    for name, ready_s in [("c", 1.0), ("a", 2.0), ("b", 1.0)]:
        queue.set(live_pod(name), 3.0, ready_s)
    assert [entry.pod.name for entry in queue.ready()] == ["b", "c", "a"]
