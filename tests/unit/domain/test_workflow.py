"""Workflows: what is no DAG is refused by name, and measures of small graphs worked out by hand."""

import itertools
import math

import pytest

from stowplan.core.domain import Phase, PodShape, Task, Workflow, WorkProfile
from stowplan.errors import InvalidInput, InvalidWorkflow


def task(name: str, seconds: float = 1.0) -> Task:
    return Task(name, PodShape(), WorkProfile((Phase(seconds),)), seconds)


def diamond() -> Workflow:
    # a(1) → b(5), c(2); b, c → d(3)
    tasks = (task("a", 1), task("b", 5), task("c", 2), task("d", 3))
    return Workflow("diamond", tasks, (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")))


def test_measures_of_a_diamond() -> None:
    workflow = diamond()
    assert workflow.depths().tolist() == [0, 1, 1, 2]
    assert workflow.upward_ranks().tolist() == [9, 8, 5, 3]
    assert workflow.downward_ranks().tolist() == [0, 1, 1, 6]
    assert workflow.critical_path() == ((0, 1, 3), 9.0)
    assert workflow.parents == ((), (0,), (0,), (1, 2))
    assert workflow.children == ((1, 2), (3,), (3,), ())
    assert len(workflow) == 4


def test_given_durations_replace_the_expected_ones() -> None:
    workflow = diamond()
    assert workflow.critical_path([1, 1, 7, 1]) == ((0, 2, 3), 9.0)
    assert workflow.upward_ranks([0, 0, 0, 0]).tolist() == [0, 0, 0, 0]


def test_ties_on_the_critical_path_go_to_the_first_task() -> None:
    workflow = Workflow("ties", (task("x"), task("y"), task("z")))
    assert workflow.critical_path() == ((0,), 1.0)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ((("a", "b"), ("b", "c"), ("c", "a")), r"cycle (a → b → c → a|b → c → a → b|c → a → b → c); remove"),
        ((("a", "a"),), r"cycle a → a; remove"),
        ((("a", "ghost"),), "'ghost'"),
        ((("ghost", "a"),), "'ghost'"),
        ((("a", "b"), ("a", "b")), r"edge 'a' → 'b' occurs twice"),
    ],
)
def test_what_is_no_dag_is_refused_by_name(edges: tuple[tuple[str, str], ...], words: str) -> None:
    with pytest.raises(InvalidWorkflow, match=words):
        Workflow("w", (task("a"), task("b"), task("c"), task("d")), edges)


def test_a_long_cycle_is_shown_by_its_beginning() -> None:
    names = [f"t{i}" for i in range(30)]
    edges = tuple(zip(names, [*names[1:], names[0]], strict=True))
    with pytest.raises(InvalidWorkflow, match="…"):
        Workflow("w", tuple(map(task, names)), edges)


def test_a_cycle_below_a_tail_is_found_and_the_tail_is_not_in_it() -> None:
    edges = (("in", "x"), ("x", "y"), ("y", "x"), ("y", "out"))
    with pytest.raises(InvalidWorkflow, match=r"cycle (x → y → x|y → x → y); remove"):
        Workflow("w", tuple(map(task, ("in", "x", "y", "out"))), edges)


def test_no_tasks_and_duplicate_tasks_are_refused() -> None:
    with pytest.raises(InvalidWorkflow, match="no tasks"):
        Workflow("w", ())
    with pytest.raises(InvalidWorkflow, match="'a' occurs twice"):
        Workflow("w", (task("a"), task("a")))


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_impossible_expectations_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidWorkflow, match="'a'"):
        Task("a", PodShape(), WorkProfile((Phase(1.0),)), seconds)


@pytest.mark.parametrize("field", ["work_s", "cpu_cores", "dram_bytes_per_s", "latency_share"])
@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_impossible_demands_are_refused(field: str, amount: float) -> None:
    with pytest.raises(InvalidInput, match=field):
        Phase(**{"work_s": 1.0, field: amount})


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="share"):
        Phase(1.0, latency_share=1.5)


def test_alone_time_follows_the_machine() -> None:
    profile = WorkProfile((Phase(2.0), Phase(3.0)), machine_factors=(("slow", 2.0),))
    assert profile.alone_s == 5.0
    assert profile.alone_on_s("slow") == 10.0
    assert profile.alone_on_s("unknown") == 5.0


def test_a_chain_of_ten_thousand_is_no_problem() -> None:
    names = [f"t{i}" for i in range(10_000)]
    workflow = Workflow("chain", tuple(map(task, names)), tuple(itertools.pairwise(names)))
    assert workflow.critical_path()[1] == 10_000.0
    assert workflow.depths()[-1] == 9_999
