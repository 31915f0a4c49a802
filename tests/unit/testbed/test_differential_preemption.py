"""Comparing preemption with answers made by hand: each kind of difference is found, and no other."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stowplan.core.constraints import FILTERS
from testbed.differential.comparison import compare
from testbed.differential.generator import generate
from testbed.differential.kept import expected_of, ours, read_case, write_case
from testbed.differential.oracle import NodeToEmpty, PodVerdict, Preempting, Verdicts
from testbed.differential.real_room import RoomMade, room_between
from testbed.differential.tally import Mismatch

FIT = FILTERS.index("NodeResourcesFit") + 1


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def pod(name: str, cpu: str, priority: int, on: str = "", **status: object) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "priority": priority}
    if on:
        spec["nodeName"] = on
    metadata = {"name": name, "namespace": "x", "labels": {"app": name}}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


BUDGET = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "x"},
    "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    "status": {"disruptionsAllowed": 0},
}
OBJECTS = [
    node("one"),
    node("two"),
    BUDGET,
    pod("kept", "1", 1, "one"),
    pod("a", "1", 5, "one"),
    pod("c", "2", 5, "two"),
    pod("urgent", "2", 9),
]


def bitmap(*places: int) -> bytes:
    mask = np.zeros(2, dtype=bool)
    mask[list(places)] = True
    return np.packbits(mask, bitorder="little").tobytes()


RIGHT = Preempting(
    potential=bitmap(0, 1),
    candidates=(NodeToEmpty("one", ("x/a", "x/kept"), 1), NodeToEmpty("two", ("x/c",))),
    chosen="two",
)


def verdicts(**changes: object) -> Verdicts:
    """The right answer about `OBJECTS`, with changes."""
    preemption = msgspec.structs.replace(RIGHT, **changes)
    verdict = PodVerdict(
        refused={"NodeResourcesFit": bitmap(0, 1)},
        first=bytes([FIT, FIT]),
        feasible=bitmap(),
        preemption=preemption,
    )
    plugins = tuple(name for name in FILTERS if name not in ("SharedGpu", "RuleTable"))
    return Verdicts(("one", "two"), plugins, {"x/urgent": verdict})


def test_the_same_answer_is_no_mismatch_and_is_counted() -> None:
    tally = compare(OBJECTS, verdicts())
    assert tally.mismatches == []
    assert (tally.preemptions, tally.helped, tally.emptied, tally.breaking) == (1, 1, 2, 1)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("eligible", {"ineligible": "not now"}),
        ("potential", {"potential": bitmap(0)}),
        ("victims", {"candidates": RIGHT.candidates[:1], "chosen": "one"}),
        ("victims", {"candidates": (NodeToEmpty("one", ("x/kept", "x/a"), 1), RIGHT.candidates[1])}),
        ("victims", {"candidates": (NodeToEmpty("one", ("x/a", "x/kept"), 2), RIGHT.candidates[1])}),
        ("chosen", {"chosen": "one"}),
    ],
    ids=["eligible", "potential", "a node", "the order", "the budgets", "chosen"],
)
def test_each_kind_of_difference_is_found(kind: str, changes: dict[str, object]) -> None:
    (mismatch,) = compare(OBJECTS, verdicts(**changes)).mismatches
    assert (mismatch.kind, mismatch.pod) == (kind, "x/urgent")


def test_a_kept_case_holds_us_to_it(tmp_path: Path) -> None:
    path = write_case(tmp_path, Mismatch(kind="victims", seed=3, nodes=("one",)), OBJECTS, verdicts())
    case = read_case(path)
    assert case.pods == expected_of(OBJECTS, verdicts()) == ours(case.objects, has_preemptions=True)
    said = case.pods["x/urgent"].preemption
    assert said is not None
    assert said.victims == {"one": ["x/a", "x/kept"], "two": ["x/c"]}
    assert (said.violations, said.chosen) == ({"one": 1}, ["two"])
    assert ours(OBJECTS[:3] + OBJECTS[4:], has_preemptions=True) != case.pods


def test_crowded_clusters_have_what_preemption_looks_at() -> None:
    """Budgets of every kind, pods without labels, equal and missing start times, pods that preempt nobody."""
    seen: set[str] = set()
    for seed in range(20):
        starts: list[tuple[object, object]] = []
        for one in generate(seed, 12, "preemption").objects:
            status = one.get("status", {})
            if one["kind"] == "PodDisruptionBudget":
                seen.add("empty selector" if one["spec"].get("selector") == {} else "selector")
                seen |= {"no selector"} if "selector" not in one["spec"] else set()
                seen |= {"disrupted"} if status.get("disruptedPods") else set()
            elif one["kind"] == "Pod":
                seen |= {"never"} if one["spec"].get("preemptionPolicy") == "Never" else set()
                seen |= {"nominated"} if "nominatedNodeName" in status else set()
                seen |= {"marked"} if status.get("conditions") else set()
                seen |= set() if one["metadata"]["labels"] else {"no labels"}
                if "nodeName" in one["spec"]:
                    starts.append((one["spec"]["nodeName"], status.get("startTime")))
        seen |= {"not started"} if any(start is None for _, start in starts) else set()
        seen |= {"at once"} if len(set(starts)) < len(starts) else set()
    wanted = "empty selector, selector, no selector, disrupted, never, nominated, marked, no labels"
    assert {*wanted.split(", "), "not started", "at once"} <= seen


def test_what_was_done_is_read_off_the_pods() -> None:
    marked = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = pod("c", "2", 5, "two", conditions=[marked])
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    before = {
        "x/a": pod("a", "1", 5, "one"),
        "x/c": pod("c", "2", 5, "two"),
        "x/low": pod("low", "1", 2, nominatedNodeName="two"),
        "x/urgent": pod("urgent", "2", 9),
    }
    after = {
        "x/c": leaving,
        "x/low": pod("low", "1", 2),
        "x/urgent": pod("urgent", "2", 9, nominatedNodeName="two"),
    }
    assert room_between(before, after, "x/urgent") == RoomMade(
        "two", frozenset({"x/a", "x/c"}), frozenset({"x/low"})
    )
    unmarked = {**after, "x/a": pod("a", "1", 5, "one"), "x/c": pod("c", "2", 5, "two", conditions=[marked])}
    assert room_between(before, unmarked, "x/urgent").victims == frozenset()
