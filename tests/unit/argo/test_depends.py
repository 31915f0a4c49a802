"""The `depends` language: whom a task waits for is not the same as when it runs."""

import pytest

from stowplan.kube.argo import DependsError, Result, parse_depends
from stowplan.kube.argo.depends import dependencies_as_depends

S, F, E, K, OM, D = (
    frozenset({result})
    for result in (
        Result.SUCCEEDED,
        Result.FAILED,
        Result.ERRORED,
        Result.SKIPPED,
        Result.OMITTED,
        Result.DAEMONED,
    )
)


def test_a_task_waits_for_all_that_it_names_even_on_an_or() -> None:
    assert parse_depends("b || a.Failed || !c-2").tasks == ("b", "a", "c-2")


@pytest.mark.parametrize(
    ("text", "ends", "runs"),
    [
        ("A", {"A": S}, True),
        ("A", {"A": K}, True),
        ("A", {"A": D}, True),
        ("A", {"A": F}, False),
        ("A", {"A": OM}, False),
        ("A.Failed", {"A": F}, True),
        ("A.Errored || A.Failed", {"A": E}, True),
        ("!A.Succeeded", {"A": S}, False),
        ("!A", {"A": OM}, True),
        ("A && B.Failed", {"A": S, "B": F}, True),
        ("A || B && C", {"A": S, "B": F, "C": F}, True),  # && binds closer
        ("(A || B) && C", {"A": S, "B": F, "C": F}, False),
        ("!A || A.Succeeded", {"A": S}, True),
        ("A.Succeeded == B.Succeeded", {"A": F, "B": F}, True),
        ("!A.Succeeded == B.Failed", {"A": F, "B": F}, True),  # ! binds closer than ==
        ("A.Succeeded != B.Succeeded", {"A": S, "B": F}, True),
        ("A.Succeeded ? B.Failed : B.Succeeded", {"A": F, "B": S}, True),
        ("  A\n&&\n  B  ", {"A": S, "B": S}, True),
        ("g.AnySucceeded && !g.AllFailed", {"g": frozenset({Result.ANY_SUCCEEDED, Result.FAILED})}, True),
    ],
)
def test_it_runs_when_the_expression_holds(text: str, ends: dict, runs: bool) -> None:
    assert parse_depends(text).holds(ends) is runs


def test_continue_on_widens_a_bare_name_but_not_one_with_a_result() -> None:
    widened = parse_depends("A && A.Succeeded", {"A": F})
    assert parse_depends("A", {"A": F}).holds({"A": F})
    assert not widened.holds({"A": F})


def test_dependencies_are_a_conjunction_of_bare_names() -> None:
    both = dependencies_as_depends(("A", "B"), {"B": F | E})
    assert both.tasks == ("A", "B")
    assert both.holds({"A": S, "B": E})
    assert not both.holds({"A": F, "B": S})


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("A &&", "ends early"),
        ("A B", "join the tasks"),
        ("(A", "not closed"),
        ("A)", "join the tasks"),
        ("A.Finished", "no known result"),
        ("A & B", "cannot be read"),
        ("A.succeeded", "cannot be read"),
        ("A ? B", "has no ':'"),
        ("&& A", "where a task is due"),
        ("!" * 500 + "A", "nests deeper"),
        ("", "ends early"),
    ],
)
def test_what_is_not_of_the_language_is_refused(text: str, mend: str) -> None:
    with pytest.raises(DependsError, match=mend.replace("(", "[(]").replace("?", "[?]")):
        parse_depends(text)


def test_outcomes_tell_what_is_certain() -> None:
    either = {"A": (S, K), "B": (OM,)}
    assert parse_depends("A").outcomes(either) == {True}
    assert parse_depends("A.Skipped").outcomes(either) == {True, False}
    assert parse_depends("B").outcomes(either) == {False}
    assert parse_depends("A.Succeeded || A.Skipped").outcomes(either) == {True}  # one task, not two


def test_outcomes_of_hundreds_of_tasks_are_found_without_trying_all() -> None:
    names = tuple(f"t{number}" for number in range(300))
    ends: dict[str, tuple[frozenset[Result], ...]] = dict.fromkeys(names, (S, K))
    assert dependencies_as_depends(names, {}).outcomes(ends) == {True}
    assert parse_depends(" && ".join(f"{name}.Skipped" for name in names)).outcomes(ends) == {True, False}
    ends["t7"] = (F,)
    assert dependencies_as_depends(names, {}).outcomes(ends) == {False}
