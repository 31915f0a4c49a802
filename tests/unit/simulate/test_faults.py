from itertools import islice

import numpy as np
import pytest

from stowplan.errors import InvalidInput, UnknownName
from stowplan.simulate.faults import Cause, FaultKind, FaultPlan, FaultRule
from tests.simulation_cases import node

NODES = [
    node("a", rack="r0", zone="z0"),
    node("b", rack="r0", zone="z0"),
    node("c", rack="r0", zone="z1"),
    node("d", rack="r1", zone="z1"),
]


def parse_one(**fields: object) -> FaultRule:
    return FaultPlan.parse({"faults": [fields]}, "faults.yaml").rules[0]


def test_a_full_rule_is_read() -> None:
    rule = parse_one(
        kind="node-not-ready",
        cause="network",
        nodes="a",
        at_s=[3, 1.5],
        duration_s=60,
        duration="exponential",
    )
    assert rule == FaultRule(
        kind=FaultKind.NODE_NOT_READY,
        cause=Cause.NETWORK,
        nodes=("a",),
        at_s=(3.0, 1.5),
        duration_s=60.0,
        duration_is_exponential=True,
    )


def test_bare_list_and_empty_list_are_plans() -> None:
    assert FaultPlan.parse([], "f").rules == ()
    assert len(FaultPlan.parse([{"kind": "spot-reclaim", "every_s": 9}], "f").rules) == 1


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("text", "must be a list"),
        ({"faults": {}}, "must be a list"),
        ({"fault": []}, "unknown key 'fault'"),
        ([3], "a rule is a mapping"),
        ([{}], "has no 'kind'"),
        ([{"kind": "disk-stal", "at_s": 1}], "did you mean 'disk-stall'"),
        ([{"kind": "node-not-ready", "cause": "kernl", "at_s": 1}], "did you mean 'kernel'"),
        ([{"kind": "disk-stall", "at": 1}], "did you mean 'at_s'"),
        ([{"kind": "disk-stall", "duration_s": 5}], "either at_s"),
        ([{"kind": "disk-stall", "duration_s": 5, "at_s": 1, "every_s": 5}], "either at_s"),
        ([{"kind": "disk-stall", "at_s": 1}], "duration_s is missing"),
        ([{"kind": "disk-stall", "at_s": -1, "duration_s": 5}], "at_s is -1"),
        ([{"kind": "disk-stall", "at_s": float("nan"), "duration_s": 5}], "at_s is nan"),
        ([{"kind": "disk-stall", "every_s": 0, "duration_s": 5}], "mean gap must be"),
        (
            [{"kind": "disk-stall", "every_s": 4, "from_s": 9, "until_s": 8, "duration_s": 5}],
            "must lie after",
        ),
        ([{"kind": "disk-stall", "at_s": 1, "duration_s": "5m"}], "duration_s is '5m'; give a number"),
        ([{"kind": "disk-stall", "at_s": 1, "duration_s": True}], "give a number"),
        ([{"kind": "disk-stall", "at_s": 1, "duration_s": 5, "factor": 1.5}], "between 0 and 1"),
        ([{"kind": "rack-outage", "at_s": 1, "duration_s": 5, "factor": 0.5}], "factor has no meaning"),
        (
            [{"kind": "disk-stall", "at_s": 1, "duration_s": 5, "duration": "long"}],
            "'fixed' or 'exponential'",
        ),
        ([{"kind": "disk-stall", "at_s": 1, "duration_s": 5, "nodes": [7]}], "give names"),
        ([{"kind": "pcie-link-down", "at_s": 1, "duration_s": 5, "root_complex": 0.5}], "whole number"),
        ([{"kind": "pcie-link-down", "at_s": 1, "duration_s": 5, "root_complex": -1}], "root_complex is -1"),
        ([{"kind": "api-slow", "at_s": 1, "duration_s": 5}], "delay_s is missing"),
    ],
)
def test_unusable_documents_are_refused_in_words(document: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=r"faults\.yaml") as caught:
        FaultPlan.parse(document, "faults.yaml")
    assert words in str(caught.value)


def test_explicit_times_strike_every_target_in_order() -> None:
    rule = FaultRule(kind=FaultKind.DISK_STALL, nodes=("d", "b"), at_s=(9.0, 2.0), duration_s=5.0)
    struck = list(rule.occurrences(NODES, np.random.default_rng(0)))
    assert [(fault.time_s, fault.nodes) for fault in struck] == [(2.0, ("b", "d")), (9.0, ("b", "d"))]


def test_poisson_has_its_mean_gap_and_strikes_one_target_evenly() -> None:
    rule = FaultRule(kind=FaultKind.DISK_STALL, zones=("z0",), every_s=10.0, duration_s=5.0)
    struck = list(islice(rule.occurrences(NODES, np.random.default_rng(3)), 4000))
    assert struck[-1].time_s / 4000 == pytest.approx(10.0, rel=0.05)
    assert all(len(fault.nodes) == 1 for fault in struck)
    share = sum(fault.nodes == ("a",) for fault in struck) / 4000
    assert share == pytest.approx(0.5, abs=0.03)


def test_until_ends_a_poisson_rule() -> None:
    rule = FaultRule(kind=FaultKind.DISK_STALL, every_s=1.0, from_s=5.0, until_s=50.0, duration_s=1.0)
    times = [fault.time_s for fault in rule.occurrences(NODES, np.random.default_rng(1))]
    assert times
    assert all(5.0 <= time_s < 50.0 for time_s in times)


def test_a_rack_goes_down_as_one_and_racks_of_two_zones_differ() -> None:
    rule = FaultRule(kind=FaultKind.RACK_OUTAGE, every_s=1.0, duration_s=1.0)
    struck = {fault.nodes for fault in islice(rule.occurrences(NODES, np.random.default_rng(1)), 200)}
    assert struck == {("a", "b"), ("c",), ("d",)}


def test_exponential_durations_have_their_mean() -> None:
    rule = FaultRule(kind=FaultKind.DISK_STALL, every_s=1.0, duration_s=30.0, duration_is_exponential=True)
    drawn = [fault.duration_s for fault in islice(rule.occurrences(NODES, np.random.default_rng(1)), 4000)]
    assert np.mean(drawn) == pytest.approx(30.0, rel=0.05)


@pytest.mark.parametrize("word", ["nodes", "racks", "zones"])
def test_unknown_targets_are_refused_with_the_nearest(word: str) -> None:
    rule = parse_one(**{"kind": "disk-stall", "at_s": 1.0, "duration_s": 1.0, word: "zz"})
    with pytest.raises(UnknownName, match="disk-stall fault"):
        next(rule.occurrences(NODES, np.random.default_rng(0)))
