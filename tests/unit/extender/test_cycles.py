"""One plan serves many questions, as it serves many tasks of a cycle, as long as that makes no difference."""

import pytest
from structlog.testing import capture_logs

from stowplan.core.policy import CycleView, Plan, Policy, make_policy
from stowplan.errors import InvalidInput
from tests.unit.extender.cases import Bench, live_pod


class Counted:
    """A bench whose list policy counts its plans."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = "heft") -> None:
        self.policy: Policy = make_policy(name)
        self.plans = 0
        plan = self.policy.plan

        def counting(view: CycleView) -> Plan:
            self.plans += 1
            return plan(view)

        monkeypatch.setattr(self.policy, "plan", counting)
        self.bench = Bench(self.policy, nodes=3)

    def ask(self, count: int = 1) -> None:
        for _ in range(count):
            self.bench.prioritize(
                self.bench.arrive(live_pod(f"p{self.bench.now_s}-{len(self.bench.feed.pods)}"))
            )


def test_questions_that_follow_each_other_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.ask(20)
    assert counted.plans == 1
    counted.bench.bind(counted.bench.arrive(live_pod("bound")), "n1")  # pods come and go within a cycle
    counted.ask()
    assert counted.plans == 1
    counted.bench.now_s += 0.2
    counted.ask(3)
    assert counted.plans == 2


def test_other_nodes_and_too_many_tasks_make_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.ask()
    counted.bench.set_node("n9", 4000)
    counted.ask(2)
    assert counted.plans == 2
    counted.ask(256)
    assert counted.plans == 3


def test_a_plan_that_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.ask()
    cycle = counted.bench.extender._scorer._cycle
    assert cycle is not None

    def failing(*_: object) -> None:
        raise InvalidInput("no scores")

    with monkeypatch.context() as faulty, capture_logs():
        faulty.setattr(type(cycle.plan), "scores", failing)
        counted.ask()
    assert "no scores" in counted.bench.extender.degraded
    counted.ask()
    assert (counted.plans, counted.bench.extender.degraded) == (2, "")
