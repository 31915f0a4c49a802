"""Caches by pod shape stay small however many shapes pass through, and what is used last stays."""

from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PodShape
from stowplan.core.domain.caching import forget_oldest, shapes_worth_keeping
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy
from tests.unit.engine.test_limits import cluster, pending


@pytest.mark.parametrize(("capacity", "most"), [(0, 512), (16, 512), (1024, 512), (2048, 256), (50_000, 128)])
def test_large_clusters_keep_fewer_shapes(capacity: int, most: int) -> None:
    assert shapes_worth_keeping(capacity) == most


def test_the_oldest_goes_first() -> None:
    table = dict.fromkeys("abcd", 0)
    forget_oldest(table, 2)
    assert list(table) == ["c", "d"]
    forget_oldest(table, 5)
    assert list(table) == ["c", "d"]


@pytest.mark.parametrize("policy", ["kube-scheduler", "srpt-physics"])
def test_shapes_that_come_and_go_are_forgotten_and_placements_stay_right(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("engine.cycle", "policy.kube.scoring"):
        monkeypatch.setattr(f"stowplan.core.{module}.shapes_worth_keeping", lambda _: 4)
    state = cluster(4, cpu_milli=100_000)
    engine = Engine(state, make_policy(policy), rng=np.random.default_rng(1))
    (task,) = pending(10)
    lasting = passing = task.task.shape
    kept = engine.filters_of(lasting)
    for number in range(20):
        passing: PodShape = replace(lasting, labels=(("workflow", f"w{number}"),))
        tasks = [
            replace(task, key=f"default/{kind}-{number}", actual=replace(task.task, shape=shape))
            for kind, shape in (("lasting", lasting), ("passing", passing))
        ]
        report = engine.cycle(float(number), tasks)
        assert len(report.placed) == 2
        for one in tasks:
            engine.forget(one.key, "ended")
    assert len(engine._filters) == 4
    assert engine._filters[lasting] is kept
    assert engine.filters_of(passing).counts() == CompiledFilters(state, passing).counts()
