"""Selector semantics of the API."""

import pytest

from stowplan.core.domain import LabelSelector, NodeSelectorTerm, Operator, Requirement
from stowplan.errors import InvalidObject


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        (Operator.IN, ("a", "b"), "a", True),
        (Operator.IN, ("a", "b"), "c", False),
        (Operator.IN, ("a",), None, False),
        (Operator.NOT_IN, ("a",), "b", True),
        (Operator.NOT_IN, ("a",), "a", False),
        (Operator.NOT_IN, ("a",), None, True),
        (Operator.EXISTS, (), "", True),
        (Operator.EXISTS, (), None, False),
        (Operator.DOES_NOT_EXIST, (), None, True),
        (Operator.DOES_NOT_EXIST, (), "x", False),
        (Operator.GT, ("5",), "6", True),
        (Operator.GT, ("5",), "5", False),
        (Operator.GT, ("5",), None, False),
        (Operator.GT, ("5",), "six", False),
        (Operator.GT, ("-5",), "+0", True),
        (Operator.GT, ("5",), "99999999999999999999", False),  # beyond 64 bits: no integer to the API
        (Operator.GT, ("1_0",), "11", False),
        (Operator.LT, ("5",), "-6", True),
        (Operator.LT, ("5",), "5", False),
        (Operator.LT, ("x",), "1", False),
    ],
)
def test_one_requirement(
    operator: Operator, values: tuple[str, ...], label: str | None, *, expected: bool
) -> None:
    assert Requirement("k", operator, values).matches_value(label) is expected


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (Operator.IN, ()),
        (Operator.NOT_IN, ()),
        (Operator.EXISTS, ("a",)),
        (Operator.DOES_NOT_EXIST, ("a",)),
        (Operator.GT, ()),
        (Operator.LT, ("1", "2")),
    ],
)
def test_wrong_number_of_values_is_refused_by_key(operator: Operator, values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidObject, match="'disk'"):
        Requirement("disk", operator, values)


def test_an_empty_selector_matches_everything_and_an_empty_term_nothing() -> None:
    assert LabelSelector().matches({})
    assert not NodeSelectorTerm().matches({"a": "b"}, "n")


def test_a_selector_is_a_conjunction() -> None:
    selector = LabelSelector.from_labels({"a": "1", "b": "2"})
    assert selector.matches({"a": "1", "b": "2", "c": "3"})
    assert not selector.matches({"a": "1"})
    assert not selector.and_also(Requirement("c", Operator.DOES_NOT_EXIST)).matches(
        {"a": "1", "b": "2", "c": "3"}
    )


def test_a_term_looks_at_labels_and_the_name() -> None:
    term = NodeSelectorTerm(
        expressions=(Requirement("zone", Operator.IN, ("z1",)),),
        fields=(Requirement("metadata.name", Operator.NOT_IN, ("n1",)),),
    )
    assert term.matches({"zone": "z1"}, "n2")
    assert not term.matches({"zone": "z1"}, "n1")
    assert not term.matches({"zone": "z2"}, "n2")
