"""What is counted and how a rate is made of it, without a cluster."""

import itertools

import pytest

from bench.live import speed
from bench.live.speed import Reading
from testbed.errors import ComponentFailed

METRICS = """\
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} 3
scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.234e+03
scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 7
scheduler_pending_pods{queue="active"} 12
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only by sleeping and by a hundredth of a second at each look."""
    now_s = itertools.count(0.0, 0.01)
    slept_s = [0.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: next(now_s) + slept_s[0])
    monkeypatch.setattr(speed.time, "sleep", lambda s: slept_s.append(slept_s.pop() + s))


def test_only_bound_pods_are_counted() -> None:
    assert speed.bindings(METRICS) == 1234
    assert speed.bindings("") == 0


def test_the_rate_is_over_what_was_bound_after_the_first_reading() -> None:
    seen = [Reading(0.0, 0), Reading(10.0, 0), Reading(11.0, 100), Reading(12.0, 250), Reading(13.0, 500)]
    assert speed.rate(seen) == pytest.approx(400 / 2.0)
    assert speed.rate(seen, beyond=101) == pytest.approx(250 / 1.0)


@pytest.mark.usefixtures("clock")
def test_readings_end_with_the_last_pod_and_are_closer_then() -> None:
    counts = iter([0, 0, *range(0, 1000, 50), *range(980, 1001)])
    seen = speed.follow(lambda: next(counts), 1000)
    assert seen[-1].bound == 1000
    gaps_s = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(seen)]
    assert max(gaps_s) < 0.3
    assert gaps_s[-1] < 0.05


@pytest.mark.usefixtures("clock")
def test_pods_that_are_never_bound_end_the_measurement() -> None:
    with pytest.raises(ComponentFailed, match="5 of 10 pods were bound in 300 s"):
        speed.follow(lambda: 5, 10)
