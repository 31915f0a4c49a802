"""Nodes whose kubelets refuse pods are closed for a while, longer each time."""

import pytest

from stowplan.serve.scheduler.holds import NodeHolds, is_refusal
from tests.scheduler_cases import live_pod


@pytest.mark.parametrize(
    ("phase", "reason", "is_one"),
    [
        ("Failed", "OutOfcpu", True),
        ("Failed", "OutOfmemory", True),
        ("Failed", "OutOfpods", True),
        ("Failed", "UnexpectedAdmissionError", True),
        ("Failed", "Evicted", False),
        ("Failed", "", False),
        ("Running", "OutOfcpu", False),
    ],
)
def test_which_failures_are_refusals(phase: str, reason: str, is_one: bool) -> None:
    assert is_refusal(live_pod("a", phase=phase, reason=reason)) is is_one


def test_a_node_is_closed_twice_as_long_each_time_and_forgiven_after_a_quiet_while() -> None:
    holds = NodeHolds(5.0, 15.0)
    assert holds.closed(0.0) == ()
    assert holds.refused("n", 0.0) == 5.0
    assert holds.refused("n", 2.0) == 3.0  # of a pod that was sent before
    assert holds.closed(4.9) == ("n",)
    assert holds.next_due_s(4.9) == 5.0
    assert not holds.have_opened(4.9)
    assert holds.have_opened(5.0)
    assert not holds.have_opened(5.5)
    assert holds.closed(5.0) == ()
    assert holds.next_due_s(5.0) is None
    assert holds.refused("n", 6.0) == 10.0
    assert holds.refused("n", 17.0) == 15.0
    assert holds.closed(32.0) == ()
    holds.closed(100.0)
    assert holds.refused("n", 100.0) == 5.0
