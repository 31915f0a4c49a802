"""From two readings of a counter to an increase: what cannot be told is unknown, no zero and no spike."""

import math
from dataclasses import replace

import pytest

from stowplan.core.semantics import IntervalRule, Taken, Unknown
from stowplan.core.semantics.rates import CounterLimits, increase, increase_of, interval_s, summed
from stowplan.core.semantics.readings import same_subject
from stowplan.errors import InvalidInput
from tests.unit.semantics.cases import DISK, RULE, START, channels, later

MILLISECONDS = CounterLimits(name="read_ms", most_per_s=1e6, width_bits=32)
REQUESTS = CounterLimits(name="reads", most_per_s=1e6)


def reason(found: float | Unknown) -> str:
    assert isinstance(found, Unknown)
    return found.reason


def test_the_interval_is_that_of_the_machines_own_clock() -> None:
    jitter = Taken(time_s=1005.2, uptime_s=50_005.0)
    assert interval_s(START, jitter, RULE) == 5.0
    assert interval_s(Taken(time_s=0.0), Taken(time_s=5.0), RULE) == 5.0


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (START, "0 s between"),
        (Taken(time_s=995.0), "-5 s between"),
        (Taken(time_s=1000.2), "0.2 s between"),
        (Taken(time_s=1031.0), "31 s between"),
        (Taken(time_s=1005.0, uptime_s=50_008.0), "a clock was set"),
        (Taken(time_s=997.0, uptime_s=50_005.0), "a clock was set"),
        (Taken(time_s=1020.0, uptime_s=3.0), "started anew"),
        (Taken(time_s=math.nan), "time went"),
        (Taken(time_s=math.inf), "time went"),
        (Taken(time_s=1005.0, uptime_s=math.nan), "uptime went"),
    ],
)
def test_an_interval_without_a_rate(after: Taken, why: str) -> None:
    assert why in reason(interval_s(START, after, RULE))


def test_a_machine_that_started_after_the_first_reading() -> None:
    found = interval_s(Taken(time_s=0.0), Taken(time_s=20.0, uptime_s=4.0), RULE)
    assert "after the first reading" in reason(found)


def test_an_increase() -> None:
    assert increase(10, 25, 5.0, REQUESTS) == 15.0
    assert increase(10, 10, 5.0, REQUESTS) == 0.0
    assert increase(2**63, 2**63 + 1, 5.0, REQUESTS) == 1.0  # exact, beyond what a float holds


def test_a_narrow_counter_wraps_and_a_wide_one_started_anew() -> None:
    assert increase(2**32 - 1000, 500, 5.0, MILLISECONDS) == 1500.0
    assert "started anew" in reason(increase(2**31, 500, 5.0, MILLISECONDS))
    assert "started anew" in reason(increase(1_000_000, 500, 5.0, REQUESTS))


@pytest.mark.parametrize("count", [-1.0, 2.0**64, math.nan, math.inf, -math.inf])
def test_a_count_that_cannot_be(count: float) -> None:
    for found in (increase(count, 10.0, 5.0, REQUESTS), increase(10.0, count, 5.0, REQUESTS)):
        assert isinstance(found, Unknown)
        assert found.broken_bound


def test_a_counter_faster_than_physics() -> None:
    found = increase(0, 6_000_000, 5.0, REQUESTS)
    assert isinstance(found, Unknown)
    assert found.broken_bound == "reads ≤ 1e+06 per second"


def test_unknown_passes_through() -> None:
    unknown = Unknown("a clock was set")
    assert increase(1, 2, unknown, REQUESTS) is unknown
    assert summed(1.0, unknown, Unknown("other")) is unknown
    assert summed(1.0, 2.0) == 3.0
    blind = replace(DISK, reads=None, missing={"reads": "no permission"})
    assert "no permission" in reason(increase_of(DISK, blind, 5.0, REQUESTS))
    assert "no reason given" in reason(increase_of(replace(DISK, reads=None), DISK, 5.0, REQUESTS))


def test_only_readings_of_one_thing_are_subtracted() -> None:
    with pytest.raises(InvalidInput, match="kind"):
        same_subject(DISK, channels(0, 0))
    with pytest.raises(InvalidInput, match="'node-1/vda', 'node-2/vda'"):
        same_subject(DISK, replace(DISK, subject="node-2/vda"))
    same_subject(DISK, replace(DISK, taken=later(START, 5.0)))


def test_rules_without_meaning_are_refused() -> None:
    with pytest.raises(InvalidInput, match="admits no interval"):
        IntervalRule(shortest_s=5.0, longest_s=5.0)
    with pytest.raises(InvalidInput, match="most_per_s"):
        CounterLimits(name="x", most_per_s=0.0)
