"""Which pods of a node must go."""

import numpy as np

from stowplan.core.constraints import CompiledFilters, MovingPods
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    DisruptionBudget,
    HostPort,
    LabelSelector,
    Operator,
    PodAffinityTerm,
    PodNominated,
    Requirement,
)
from stowplan.core.preemption import BudgetBook, Candidate, StartTimes, select_victims
from tests.preemption_cases import bound, budget, cluster, filters, started, wants

Told = tuple[list[str], int]


def told(candidate: Candidate | None) -> Told | None:
    if candidate is None:
        return None
    return [pod.key.partition("/")[2] for pod in candidate.victims], candidate.violations


def on_row(
    row: int,
    state: ClusterState,
    compiled: CompiledFilters,
    times: StartTimes,
    *budgets: DisruptionBudget,
) -> Told | None:
    (found,) = select_victims(state, compiled, np.array([row]), BudgetBook(budgets), times)
    return told(found)


def victims_of(
    *pods: BoundPod, cpu_milli: int = 300, priority: int = 100, budgets: tuple[DisruptionBudget, ...] = ()
) -> Told | None:
    state = cluster({"n": pods})
    before = state.sequence
    shape = wants(cpu_milli, priority)
    found = on_row(0, state, filters(state, shape), started(a=1.0, b=2.0, c=3.0, d=4.0), *budgets)
    assert state.sequence == before
    return found


def test_as_few_as_needed_and_the_least_important() -> None:
    full = (bound("a", 300), bound("b", 300, 5), bound("c", 300), bound("d", 100))
    assert victims_of(*full) == (["c"], 0)  # d, which would be reprieved last, is in nobody's way
    assert victims_of(*full, cpu_milli=400) == (["c", "d"], 0)


def test_the_longer_run_is_spared() -> None:
    assert victims_of(bound("b", 500), bound("a", 500)) == (["b"], 0)
    assert victims_of(bound("x", 500), bound("a", 500)) == (["x"], 0)  # x has not started


def test_the_higher_priority_is_spared_and_told_first() -> None:
    full = (bound("a", 300, 1), bound("b", 300, 3), bound("c", 300, 2), bound("d", 100, 3))
    assert victims_of(*full) == (["a"], 0)
    assert victims_of(*full, cpu_milli=800) == (["b", "c", "a"], 0)
    assert victims_of(*full, cpu_milli=950) == (["b", "d", "c", "a"], 0)


def test_only_pods_of_lower_priority_go() -> None:
    assert victims_of(bound("a", 800, 100), bound("b", 200, 99)) is None
    assert victims_of(bound("a", 700, 100), bound("b", 300, 99)) == (["b"], 0)
    assert victims_of(bound("a", 1000, 100)) is None
    assert victims_of(bound("a", 500, -7), bound("b", 500, -8), priority=-7) == (["b"], 0)


def test_no_victims_for_a_pod_that_fits() -> None:
    assert victims_of(bound("a", 100)) is None


def test_pods_that_a_budget_keeps_are_reprieved_first_whatever_their_priority() -> None:
    full = (bound("a", 500, 1), bound("b", 500, 9))
    assert victims_of(*full, budgets=(budget("a", 0),)) == (["b"], 0)
    assert victims_of(*full, budgets=(budget("a", 1),)) == (["a"], 0)
    assert victims_of(*full, cpu_milli=600, budgets=(budget("a", 0),)) == (["b", "a"], 1)


def test_a_budget_is_used_up_pod_by_pod_the_most_important_first() -> None:
    full = (bound("a1", 250), bound("a2", 250, 9), bound("a3", 250), bound("b", 250))
    # a2 may go, a1 and a3 may not: so b goes first, then a2.
    assert victims_of(*full, budgets=(budget("a", 1),)) == (["a2", "b"], 0)
    # a1 is counted already and may go; it has not started, so it is less important than b.
    assert victims_of(*full, budgets=(budget("a", 1, "a1"),), cpu_milli=200) == (["a1"], 0)


def test_a_pod_of_several_budgets_and_one_that_is_disrupted_already() -> None:
    pods = MovingPods([bound("a1", 1), bound("a2", 1), bound("a3", 1)], [0, 0, 0])
    everyone = np.arange(3)
    broken = BudgetBook([budget("a", 1, "a1"), budget("a", 5)]).broken(pods, everyone)
    assert broken.tolist() == [False, False, True]
    assert not BudgetBook([budget("b", 0)]).broken(pods, everyone).any()


def test_a_pod_that_one_budget_keeps_does_not_count_for_the_next_and_each_node_counts_for_itself() -> None:
    both = (("app", "a"), ("tier", "x"))
    names = ("a1", "b1", "a2", "b2", "b3")
    pods = MovingPods(
        [bound(name, 1, labels=both if name[0] == "a" else both[1:]) for name in names], [0, 0, 1, 1, 1]
    )
    tier = DisruptionBudget("default", "tier", LabelSelector.from_labels({"tier": "x"}), 1)
    broken = BudgetBook([budget("a", 0), tier]).broken(pods, np.arange(5))
    assert broken.tolist() == [True, False, True, False, True]


def test_a_budget_is_about_its_own_namespace() -> None:
    elsewhere = DisruptionBudget("elsewhere", "of-a", LabelSelector.from_labels({"app": "a"}))
    assert victims_of(bound("a", 500), bound("b", 500), budgets=(elsewhere,)) == (["b"], 0)


def test_equal_pods_keep_their_order_those_of_a_broken_budget_before_the_others() -> None:
    state = cluster({"n": [bound("c1", 500), bound("d1", 500)]})
    compiled = filters(state, wants(1000))
    at_once = started(c1=1.0, d1=1.0)
    assert on_row(0, state, compiled, at_once) == (["c1", "d1"], 0)
    assert on_row(0, state, compiled, at_once, budget("d", 0)) == (["d1", "c1"], 1)
    not_yet = started()
    assert on_row(0, state, compiled, not_yet, budget("d", 0)) == (["c1", "d1"], 1)


def test_room_is_kept_for_pods_that_are_nominated_and_go_first() -> None:
    state = cluster({"n": [bound("a", 500), bound("b", 500)]})
    compiled = filters(state, wants(300))
    times = started(a=1.0, b=2.0)
    assert on_row(0, state, compiled, times) == (["b"], 0)
    state.apply(PodNominated(BoundPod("default/first", wants(500, 100)), "n"))
    compiled.refresh()
    assert on_row(0, state, compiled, times) == (["a", "b"], 0)
    state.apply(PodNominated(BoundPod("default/first", wants(500, 99)), "n"))
    compiled.refresh()
    assert on_row(0, state, compiled, times) == (["b"], 0)


def test_not_only_resources() -> None:
    port = (HostPort("TCP", "0.0.0.0", 80),)  # noqa: S104  (a value of the API)
    apart = PodAffinityTerm("zone", LabelSelector((Requirement("app", Operator.IN, ("a",)),)))
    state = cluster({"n": [bound("a", 1), bound("b", 1, host_ports=port), bound("c", 1)], "m": []})
    shape = wants(1, host_ports=port, anti_affinity=(apart,))
    compiled = filters(state, shape)
    assert on_row(0, state, compiled, started(a=1.0, b=2.0)) == (["a", "b"], 0)
    # On m nothing stands in the way but a, which runs elsewhere: kube-scheduler does not look there either.
    assert on_row(1, state, compiled, started()) is None


def test_victims_that_are_being_deleted_are_victims_like_others() -> None:
    leaving = BoundPod("default/l", wants(500, 50), is_terminating=True)
    assert victims_of(leaving, bound("b", 500)) == (["b"], 0)
    assert victims_of(leaving, bound("b", 500, 60)) == (["l"], 0)
