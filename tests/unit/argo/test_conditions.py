"""`when` is decided where it is constant, and never decided wrongly."""

import pytest

from stowplan.kube.argo.conditions import decide


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", True),
        ("true", True),
        ("false", False),
        ("heads == heads", True),
        ("heads == tails", False),
        ("'a b' != \"a b\"", False),
        ("1 < 2", True),
        ("1.0 == 1", True),
        ("3 >= 4", False),
        ("a < b", True),
        ("1 == '1'", False),  # a number is no text
        ("a == a && b == c", False),
        ("a == b || !(a == b)", True),
        ("true == true", True),
        ("x in (x, y)", True),
        ("z in ('x', \"y\")", False),
        ("heads =~ '^hea'", True),
        ("heads !~ tai", True),
        ("a == a || b == c && b == c", True),
    ],
)
def test_a_constant_is_decided(text: str, value: bool) -> None:
    assert decide(text) is value


@pytest.mark.parametrize(
    "text",
    [
        "{{steps.flip.outputs.result}} == heads",
        "us-east-1 == us-east-1",  # govaluate subtracts
        "a.b == a.b",  # govaluate looks b up in a
        "'2024-01-01' == '2024-01-01T00:00:00Z'",  # govaluate compares times
        "1 < a",
        "true < false",
        "1 + 1 == 2",
        "heads",
        "a ==",
        "(a == a",
        "a == b == c",
        "a =~ '['",
        "heads =~ '(h*)*x'",  # no pattern that may run for ever
        "1 && true",
        "!" * 300 + "true",
        "a == a " * 1000,
        "'a\\'b' == c",
    ],
)
def test_what_is_not_surely_constant_stays_a_condition(text: str) -> None:
    assert decide(text) is None
