"""Number, unit, source, quality and age go together; unknown is never a zero."""

import math

import pytest

from stowplan.core.semantics import Quality, Source, Unit, Unknown, Value, best_of, measured, missing
from stowplan.errors import InvalidInput, UnknownName

NAME = "memory_bandwidth_utilisation"


def utilisation(number: float | Unknown, source: Source = Source.UNCORE_CAS, time_s: float = 100.0) -> Value:
    return measured(NAME, number, source=source, measured_s=time_s)


def test_a_present_value_says_all_that_it_is() -> None:
    value = utilisation(0.25)
    assert value.known == 0.25
    assert value.quality is Quality.PRESENT
    assert value.unit is Unit.ONE
    assert value.source is Source.UNCORE_CAS
    assert value.age_s == 0.0


def test_a_value_grows_old_and_then_stale() -> None:
    value = utilisation(0.25)
    young, old = value.at(115.0), value.at(115.5)
    assert young.known == 0.25
    assert young.age_s == 15.0
    assert old.quality is Quality.STALE
    assert old.known is None
    assert old.number == 0.25
    assert "15.5 s ago" in old.reason


def test_a_reading_from_the_future_is_impossible() -> None:
    assert utilisation(0.25).at(99.5).known == 0.25  # two clocks differ a little
    ahead = utilisation(0.25).at(90.0)
    assert ahead.quality is Quality.IMPOSSIBLE
    assert ahead.broken_bound == "age ≥ 0"
    with pytest.raises(InvalidInput, match="now_s is nan"):
        utilisation(0.25).at(math.nan)


@pytest.mark.parametrize(
    ("number", "quality", "bound"),
    [
        (1.0, Quality.PRESENT, ""),
        (1.04, Quality.PRESENT, ""),  # counter and clock are not read at one instant: taken as 1
        (1.06, Quality.IMPOSSIBLE, "≤ 1"),
        (-0.01, Quality.IMPOSSIBLE, "≥ 0"),
        (math.inf, Quality.IMPOSSIBLE, "≤ 1"),
        (-math.inf, Quality.IMPOSSIBLE, "≥ 0"),
        (math.nan, Quality.MISSING, ""),
        (Unknown("no permission"), Quality.MISSING, ""),
        (Unknown("x is −1", "x ≥ 0"), Quality.IMPOSSIBLE, "x ≥ 0"),
    ],
)
def test_the_number_decides_the_quality(number: float | Unknown, quality: Quality, bound: str) -> None:
    value = utilisation(number)
    assert value.quality is quality
    assert value.broken_bound == bound
    assert (value.known is None) == (quality is not Quality.PRESENT)
    assert value.known is None or value.known <= 1.0
    assert value.known is not None or value.reason


def test_what_was_never_measured_has_no_age() -> None:
    value = missing(NAME, "no memory controller is visible in this machine", source=Source.UNCORE_CAS)
    assert value.at(1e9) == value
    assert value.age_s is None
    assert value.number is None


def test_what_follows_from_a_value_has_its_quality() -> None:
    assert utilisation(0.5).derive("cpu_weight", lambda number: number / 2).known == 0.25
    stale = utilisation(0.5).at(200.0).derive("cpu_weight", lambda number: number / 2)
    assert stale.quality is Quality.STALE
    assert stale.number == 0.25
    lost = utilisation(Unknown("gone")).derive("cpu_weight", lambda number: number / 2)
    assert lost.quality is Quality.MISSING
    assert lost.reason == "gone"
    broken = utilisation(0.5).derive("cpu_weight", lambda number: -number)
    assert broken.quality is Quality.IMPOSSIBLE
    assert broken.broken_bound == "≥ 0"


def test_the_best_of_several_sources() -> None:
    measured_here = utilisation(0.2)
    stand_in = utilisation(0.9, Source.STALLED_CYCLES)
    assert best_of([stand_in, measured_here]) is measured_here
    assert best_of([stand_in, utilisation(Unknown("no permission"))]) is stand_in
    assert stand_in.source.is_stand_in
    assert not measured_here.source.is_stand_in
    old, young = utilisation(0.1, time_s=90.0).at(101.0), utilisation(0.2).at(101.0)
    assert best_of([old, young]) is young
    with pytest.raises(InvalidInput, match="one quantity"):
        best_of([measured_here, missing("rtt_s", "", source=Source.PING)])
    with pytest.raises(InvalidInput, match="one quantity"):
        best_of([])


def test_an_unknown_quantity_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'rtt_s'"):
        measured("rtt", 1.0, source=Source.PING, measured_s=0.0)
