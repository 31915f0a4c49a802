"""What is foreseen of small cycles, against times worked out by hand."""

from typing import NoReturn

import numpy as np
import pytest

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.lookahead import Counted, LookAhead, Timed
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.listing import ListPolicy
from stowplan.core.policy.nodes.packing import BestFit
from stowplan.core.policy.orders import by_arrival
from stowplan.errors import InternalError, InvalidInput


def task(name: str, seconds: float, *, asks_milli: int, uses_cores: float = 1.0) -> Task:
    shape = PodShape(requests=Resources({"cpu": asks_milli}), score_cpu_milli=asks_milli)
    return Task(name, shape, WorkProfile((Phase(seconds, cpu_cores=uses_cores),)), seconds)


def started(name: str, *tasks: Task, edges: tuple[tuple[str, str], ...] = ()) -> WorkflowProgress:
    progress = WorkflowProgress(name, Workflow(name, tasks, edges), 0.0)
    progress.start()
    return progress


def pending(progress: WorkflowProgress, index: int = 0) -> PendingTask:
    return PendingTask(f"{progress.key}-{index}", progress, index, 0.0)


class Scene:
    """Nodes of so many cores, and one cycle of look-ahead on them."""

    def __init__(self, **cores: int) -> None:
        self.state = ClusterState()
        for name, count in cores.items():
            allocatable = Resources({"cpu": 1000 * count, "memory": 1 << 34, "pods": 20})
            self.state.apply(NodeSet(Node(name, allocatable, hardware=Hardware(cores=float(count)))))
        self.running: dict[str, RunningTask] = {}

    def runs(self, waiting: PendingTask, node: str, *, for_s: float, ends_s: float) -> None:
        self.state.apply(PodBound(BoundPod(waiting.key, waiting.task.shape), node))
        waiting.progress.running(waiting.index)
        row = self.state.row(node)
        self.running[waiting.key] = RunningTask(waiting, row, 100.0 - for_s, 100.0 + ends_s)

    def decide(self, ahead: LookAhead, *waiting: PendingTask) -> dict[str, str]:
        report = Engine(self.state, ahead, rng=np.random.default_rng(0)).cycle(100.0, waiting, self.running)
        return {each.key: placed.node_name for each, placed in report.placed}


def alone(*, horizon: int = 32, most_tasks: int = 400) -> LookAhead:
    return LookAhead(make_policy("best-fit"), [], horizon=horizon, most_tasks=most_tasks)


def objective(complete_s: list[float], ends_s: list[float]) -> object:
    """The mean of the workflows, and a hundredth of that of the tasks."""
    return pytest.approx(sum(complete_s) / len(complete_s) + 0.01 * sum(ends_s) / len(ends_s), rel=1e-6)


def test_a_workflow_goes_on_where_there_is_room() -> None:
    scene, ahead = Scene(a=2, b=2), alone()
    first = started("one", task("A", 10, asks_milli=2000), task("B", 5, asks_milli=2000), edges=(("A", "B"),))
    scene.decide(ahead, pending(first), pending(started("two", task("C", 4, asks_milli=2000))))
    # A 0–10, B after it 10–15; C beside them 0–4.
    assert ahead.examined.foreseen_s["best-fit"] == objective([15, 4], [10, 15, 4])


def test_tasks_that_share_cores_slow_each_other() -> None:
    scene, ahead = Scene(a=2), alone()
    scene.decide(
        ahead,
        pending(started("x", task("X", 4, asks_milli=1000, uses_cores=2.0))),
        pending(started("y", task("Y", 8, asks_milli=1000, uses_cores=2.0))),
    )
    # Half the speed each until X ends at 8; Y has done 4 of its 8 by then and ends at 12.
    assert ahead.examined.foreseen_s["best-fit"] == objective([8, 12], [8, 12])


def test_what_waits_takes_room_in_the_order_of_the_plan() -> None:
    scene, ahead = Scene(a=1), alone()
    scene.runs(pending(started("r", task("R", 6, asks_milli=1000))), "a", for_s=3.0, ends_s=3.0)
    p, q = started("p", task("P", 5, asks_milli=1000)), started("q", task("Q", 2, asks_milli=1000))
    scene.decide(ahead, pending(p), pending(q))
    # R has half of its time left, 3 s; P 3–8, Q 8–10.
    assert ahead.examined.foreseen_s["best-fit"] == objective([3, 8, 10], [3, 8, 10])


def test_a_task_that_is_overdue_goes_on_for_a_tenth_of_its_time() -> None:
    scene, ahead = Scene(a=1), alone()
    scene.runs(pending(started("r", task("R", 10, asks_milli=1000))), "a", for_s=20.0, ends_s=-10.0)
    scene.decide(ahead, pending(started("p", task("P", 5, asks_milli=1000))))
    # 20 s have passed of 10: 2 s more, then P.
    assert ahead.examined.foreseen_s["best-fit"] == objective([2, 7], [2, 7])


def test_beyond_the_horizon_the_longest_way_counts() -> None:
    scene, ahead = Scene(a=2), alone(horizon=1)
    chain = started(
        "c",
        task("A", 10, asks_milli=2000),
        task("B", 5, asks_milli=2000),
        task("C", 3, asks_milli=2000),
        edges=(("A", "B"), ("B", "C")),
    )
    scene.decide(ahead, pending(chain))
    # A ends at 10, where the horizon is; B runs until 15, and 3 s come after it.
    assert ahead.examined.foreseen_s["best-fit"] == objective([18], [10, 15])


def test_the_plan_that_spreads_is_taken_where_packing_costs_time() -> None:
    scene = Scene(a=2, b=2)
    ahead = LookAhead(make_policy("best-fit"), [make_policy("kube-scheduler")])
    where = scene.decide(
        ahead,
        pending(started("x", task("X", 4, asks_milli=1000, uses_cores=2.0))),
        pending(started("y", task("Y", 8, asks_milli=1000, uses_cores=2.0))),
    )
    assert sorted(where.values()) == ["a", "b"]
    assert ahead.examined.chosen == "kube-scheduler"
    assert ahead.examined.foreseen_s == {
        "best-fit": objective([8, 12], [8, 12]),
        "kube-scheduler": objective([4, 8], [4, 8]),
    }


@pytest.mark.parametrize(("plans", "chosen"), [(0, "best-fit"), (1, "best-fit"), (2, "kube-scheduler")])
def test_the_budget_bounds_how_many_plans_are_examined(plans: int, chosen: str) -> None:
    scene = Scene(a=2, b=2)
    ahead = LookAhead(make_policy("best-fit"), [make_policy("kube-scheduler")], budget=lambda: Counted(plans))
    works = [pending(started(n, task(n, 4, asks_milli=1000, uses_cores=2.0))) for n in ("x", "y")]
    scene.decide(ahead, *works)
    assert (ahead.examined.plans, ahead.examined.chosen) == (plans, chosen)
    assert len(ahead.examined.foreseen_s) == plans


@pytest.mark.parametrize(("in_time", "plans"), [(1, 0), (2, 0), (4, 0), (5, 1), (9, 1), (10, 2)])
def test_when_the_time_is_over_the_policys_own_plan_is_taken(in_time: int, plans: int) -> None:
    # Asked when it begins, before each plan, for the one node of the first plan (two of the second), and
    # after each of the two ends that are followed.
    clock = iter([0.0] * in_time + [0.5] * 20)
    scene = Scene(a=2, b=2)
    ahead = LookAhead(
        make_policy("best-fit"),
        [make_policy("kube-scheduler")],
        budget=lambda: Timed(0.02, lambda: next(clock)),
    )
    works = [pending(started(n, task(n, 4, asks_milli=1000, uses_cores=2.0))) for n in ("x", "y")]
    where = scene.decide(ahead, *works)
    assert ahead.examined.plans == plans
    assert ahead.examined.chosen == ("kube-scheduler" if plans == 2 else "best-fit")
    assert len(set(where.values())) == (2 if plans == 2 else 1)


def test_a_policy_that_fails_is_passed_over_and_named() -> None:
    class Failing(ListPolicy):
        def plan(self, view: CycleView) -> NoReturn:  # noqa: ARG002  (the contract's)
            raise InternalError("no plan today")

    scene = Scene(a=2)
    failing = Failing("failing", by_arrival, BestFit())
    ahead = LookAhead(make_policy("best-fit"), [failing, make_policy("kube-scheduler")])
    scene.decide(ahead, pending(started("x", task("X", 4, asks_milli=1000))))
    assert ahead.examined.failed == {"failing": "no plan today"}
    assert list(ahead.examined.foreseen_s) == ["best-fit", "kube-scheduler"]
    assert ahead.examined.plans == 3
    with pytest.raises(InternalError, match="no plan today"):
        scene.decide(
            LookAhead(failing, [make_policy("best-fit")]), pending(started("y", task("Y", 4, asks_milli=100)))
        )


def test_a_large_cycle_is_not_examined() -> None:
    scene, ahead = Scene(a=2), alone(most_tasks=1)
    scene.decide(ahead, *(pending(started(n, task(n, 4, asks_milli=100))) for n in ("x", "y")))
    assert ahead.examined.plans == 0


def test_what_cannot_be_looked_ahead_with_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'fgd' remembers more"):
        LookAhead(make_policy("srpt"), [make_policy("fgd")])
    with pytest.raises(InvalidInput, match="'srpt' is to be looked ahead with twice"):
        LookAhead(make_policy("srpt"), [make_policy("srpt")])
    with pytest.raises(InvalidInput, match="horizon is 0"):
        LookAhead(make_policy("srpt"), [], horizon=0)
