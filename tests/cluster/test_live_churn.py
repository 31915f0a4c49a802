"""Five thousand pods come, run and go under the process of the scheduler: it binds all and keeps none.

`bench/live_churn.py` does the same with 200,000 and measures the slope of the memory.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.live.chaos import seen_by, there_are
from bench.live.churn import MIB, Churn, Memory, Sample, sample, slope_bytes
from bench.live_churn import served
from testbed import api
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.stowplan import NAME, Scheduler
from testbed.waiting import wait_for

WAVES, SIZE = 5, 1000
MOST_GROWTH_BYTES = 64 * MIB  # coarse: bounded caches are still filling, whose bounds the benchmark passes


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[Cluster, Scheduler]]:
    try:
        with served(tmp_path / "history.sqlite", nodes=60) as both:
            yield both
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.mark.timeout(600)  # half a minute, on a machine that may be far slower
def test_pods_that_are_gone_are_forgotten(serving: tuple[Cluster, Scheduler]) -> None:
    cluster, scheduler = serving
    api.make_namespace(cluster.client, "churn")
    churn = Churn(cluster, "churn", scheduler.scheduler_name, SIZE)
    pods, samples = 0, list[Sample]()
    for _ in range(WAVES):
        pods += churn.wave()
        samples.append(sample(cluster, NAME, 0, pods))

    assert pods == WAVES * SIZE
    bound = scheduler.metric("stowplan_schedule_attempts_total", result="scheduled")
    assert bound == pods - WAVES * SIZE // 100  # all but those that no node can take
    wait_for("it sees that they are gone", lambda: seen_by(scheduler) == there_are(cluster), 30.0)
    queues = scheduler.ask("/v1/status")["scheduler"]["queues"]
    assert not any(queues.values()), queues
    assert samples[-1].memory.resident - samples[1].memory.resident < MOST_GROWTH_BYTES


def test_the_slope_is_that_within_each_life() -> None:
    def read(life: int, pods: int, held: int) -> Sample:
        return Sample(life=life, pods=pods, at_s=0.0, memory=Memory(resident=held, proportional=0))

    first = [read(0, pods, 1_000_000 + 3 * pods) for pods in (100, 200, 300)]
    second = [read(1, pods, 5_000_000 + 3 * pods) for pods in (100, 200, 300, 400)]
    warming = [read(1, 50, 0)]
    assert slope_bytes([*first, *warming, *second], "resident", 99) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="run longer"):
        slope_bytes(first, "resident", 200)
