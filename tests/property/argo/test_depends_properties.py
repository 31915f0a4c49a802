"""`depends` against an evaluation of its own: every expression, over every way in which its tasks may end."""

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.argo import Result, parse_depends

TASKS = ("a", "b-1", "c")
ENDS = tuple(frozenset({result}) for result in Result)
Tree = tuple[Any, ...]
BARE = (Result.SUCCEEDED, Result.SKIPPED, Result.DAEMONED)

# An expression as nested tuples: ("is", task, result or None), ("!", x), (sign, x, y), ("?", x, y, z).
TERMS = st.tuples(st.just("is"), st.sampled_from(TASKS), st.sampled_from([None, *Result]))


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.just("!"), inner),
        st.tuples(st.sampled_from(["&&", "||", "==", "!="]), inner, inner),
        st.tuples(st.just("?"), inner, inner, inner),
    )


TREES = st.recursive(TERMS, _compound, max_leaves=8)
LEVELS = {"?": 0, "||": 1, "&&": 2, "==": 3, "!=": 3, "!": 4, "is": 5}


def written(tree: Tree, level: int = 0) -> str:
    """The expression as text, with no parentheses but those that precedence demands."""
    sign = tree[0]
    if sign == "is":
        text = tree[1] + (f".{tree[2]}" if tree[2] else "")
    elif sign == "!":
        text = f"!{written(tree[1], 4)}"
    elif sign == "?":
        text = f"{written(tree[1], 1)} ? {written(tree[2])} : {written(tree[3])}"
    else:
        own = LEVELS[sign]
        text = f"{written(tree[1], own)} {sign} {written(tree[2], own + 1)}"
    return f"({text})" if LEVELS[sign] < level else text


def value(tree: Tree, ends: dict[str, frozenset[Result]]) -> bool:
    """What the expression means, straight from its structure."""
    sign = tree[0]
    if sign == "is":
        return not ends[tree[1]].isdisjoint((tree[2],) if tree[2] else BARE)
    if sign == "!":
        return not value(tree[1], ends)
    if sign == "?":
        return value(tree[2] if value(tree[1], ends) else tree[3], ends)
    left, right = value(tree[1], ends), value(tree[2], ends)
    return {"&&": left and right, "||": left or right, "==": left == right, "!=": left != right}[sign]


def named(tree: Tree) -> set[str]:
    """The tasks in an expression."""
    if tree[0] == "is":
        return {tree[1]}
    return set().union(*(named(part) for part in tree[1:]))


@given(TREES)
def test_every_expression_means_what_its_structure_says(tree: Tree) -> None:
    depends = parse_depends(written(tree))
    assert set(depends.tasks) == named(tree)
    for ways in product(ENDS, repeat=len(depends.tasks)):
        ends = dict(zip(depends.tasks, ways, strict=True))
        assert depends.holds(ends) == value(tree, ends), written(tree)


@given(
    TREES,
    st.fixed_dictionaries({task: st.lists(st.sampled_from(ENDS), min_size=1, unique=True) for task in TASKS}),
)
def test_outcomes_are_what_trying_all_ways_gives(
    tree: Tree, possible: dict[str, list[frozenset[Result]]]
) -> None:
    depends = parse_depends(written(tree))
    ways = product(*(possible[task] for task in depends.tasks))
    tried = {value(tree, dict(zip(depends.tasks, way, strict=True))) for way in ways}
    assert depends.outcomes({task: tuple(ends) for task, ends in possible.items()}) >= tried
    if len(depends.tasks) < 3:
        assert depends.outcomes({task: tuple(ends) for task, ends in possible.items()}) == tried
