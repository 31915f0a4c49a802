"""The roles in which readers of the API server are measured, each really in a process of its own."""

import json

import pytest

from bench import kube_reflector, live_feed
from bench.live.roles import measured
from bench.live.templates import NODES_HELD, Template, node, pod


@pytest.mark.parametrize(("module", "more"), [(kube_reflector.MODULE, ()), (live_feed.MODULE, (0,))])
def test_a_reader_holds_all_that_is_served_and_its_memory_is_told(module: str, more: tuple[int, ...]) -> None:
    held = measured(module, "hold", served=(7, 3, 0, *more))
    assert held.get("held", held.get("pods", 0) + held.get("nodes", 0)) == 10
    assert 0 < held["before_bytes"] <= held["most_bytes"]
    assert 0 < held["bytes"] <= held["most_bytes"]


@pytest.mark.parametrize(
    ("module", "served", "asked"),
    [
        (kube_reflector.MODULE, (5, 0, 12), (12,)),
        (live_feed.MODULE, (5, 5, 12, 0), (5, 12)),
        (live_feed.MODULE, (5, 5, 2_500, 1), (5, 2_500)),
    ],
    ids=["reflector", "status-updates", "lives"],
)
def test_a_reader_takes_all_events_and_its_time_is_told(
    module: str, served: tuple[int, ...], asked: tuple[int, ...]
) -> None:
    taken = measured(module, "events", served=served, asked=asked)
    assert taken["cpu_s"] > 0.0
    assert taken["clock_s"] > 0.0


def test_a_template_is_filled_with_number_version_node_and_workflow() -> None:
    filled = json.loads(Template(live_feed.task("running")).fill(NODES_HELD + 41, 9))
    assert filled["metadata"]["name"] == "workflow-00000252-task-00005041"
    assert filled["metadata"]["resourceVersion"] == "9"
    assert filled["spec"]["nodeName"] == "node-00000041"
    assert json.loads(Template(node()).fill(7, 1))["metadata"]["name"] == "node-00000007"
    assert len(Template(pod()).fill(1, 1)) in kube_reflector.POD_BYTES
