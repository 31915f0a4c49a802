"""Rates that are remembered: the same as those that are worked out, and never too many."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stowplan.core.domain import Disk, Hardware, Node, Resources
from stowplan.core.lookahead import rates
from stowplan.core.lookahead.rates import Rates
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy.demand import TaskDemand
from tests.record_cases import some_workflow

NODE = Node(
    "n",
    Resources({"cpu": 4000, "memory": 1 << 34, "pods": 110}),
    hardware=Hardware(dram_bytes_per_s=2e10, disks=(Disk(1e8, 1000.0),)),
)


def companies(known: Rates, count: int) -> list[list[TaskDemand]]:
    chance = np.random.default_rng(3)
    tasks = [task for n in range(count) for task in some_workflow(chance, f"w{n}").workflow.tasks]
    return [[known.demand_of(task) for task in tasks[first : first + 3]] for first in range(len(tasks) - 3)]


def test_forgetting_changes_no_rate_and_bounds_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_RATES", 30)
    fresh, forgetful = Rates(PhysicsLaws()), Rates(PhysicsLaws())
    some = companies(fresh, 20)
    assert len(some) > 30
    for company in some:
        forgetful.start()
        assert_allclose(forgetful.of(NODE, company), fresh.of(NODE, company), rtol=1e-12)
        assert forgetful.of(NODE, company) is forgetful.of(NODE, company)
        assert forgetful.remembered <= 30 + len(company)
    assert fresh.remembered == sum(map(len, some))


def test_demands_of_ever_other_tasks_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_DEMANDS", 10)
    known = Rates(PhysicsLaws())
    chance = np.random.default_rng(3)
    for number in range(40):
        known.start()
        for task in some_workflow(chance, f"w{number}").workflow.tasks:
            assert known.demand_of(task) is known.demand_of(task)
        assert known.demands <= 10 + 5
