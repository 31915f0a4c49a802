"""Ratios between kinds of machines: pooled over classes, and own where a class was seen."""

import math

import pytest

from stowplan.core.domain import ClassKey
from stowplan.observe.history.node_classes import Cell, NodeClassRatios

A, B, C = (ClassKey("wf", name, "") for name in "abc")
LN2 = math.log(2.0)


def cell(key: ClassKey, node_class: str, seconds: float, item: str = "") -> Cell:
    return Cell(key, item, node_class, math.log(seconds))


def test_a_common_ratio_is_found_from_other_classes() -> None:
    ratios = NodeClassRatios.of(
        [cell(A, "old", 20), cell(A, "new", 10), cell(B, "old", 8), cell(B, "new", 4), cell(C, "new", 7)]
    )
    assert ratios.factor("old", "new") == pytest.approx(2.0)
    assert ratios.offset(C, "old") - ratios.offset(C, "new") == pytest.approx(LN2)


def test_one_odd_class_does_not_move_the_ratio_but_has_its_own() -> None:
    pairs = [(ClassKey("wf", name, ""), 2.0) for name in "abcdefgh"] + [(ClassKey("wf", "odd", ""), 32.0)]
    ratios = NodeClassRatios.of(
        [
            cell(key, node, 3.0 * (factor if node == "old" else 1.0))
            for key, factor in pairs
            for node in ("old", "new")
        ]
    )
    assert ratios.factor("old", "new") == pytest.approx(2.0)
    odd = pairs[-1][0]
    own = math.exp(ratios.offset(odd, "old") - ratios.offset(odd, "new"))
    assert 2.0 < own < 32.0


def test_a_class_seen_on_many_items_there_gets_nearly_its_own_ratio() -> None:
    cells = [
        cell(key, node, (index + 1.0) * (factor if node == "old" else 1.0), item=str(index))
        for key, factor in ((A, 2.0), (B, 2.0), (C, 4.0))
        for index in range(10)
        for node in ("old", "new")
    ]
    ratios = NodeClassRatios.of(cells)
    assert math.exp(ratios.offset(C, "old") - ratios.offset(C, "new")) == pytest.approx(4.0, rel=0.05)


def test_what_cannot_be_compared_is_unknown() -> None:
    ratios = NodeClassRatios.of(
        [cell(A, "old", 20), cell(A, "new", 10), cell(B, "island", 5), cell(C, "", 3)]
    )
    assert [ratios.knows(name) for name in ("old", "new", "island", "")] == [True, True, False, False]
    assert ratios.factor("island", "new") == 1.0


def test_one_kind_of_machine_is_known_and_needs_no_ratio() -> None:
    ratios = NodeClassRatios.of([cell(A, "only", 20), cell(B, "only", 5)])
    assert ratios.knows("only")
    assert ratios.offset(A, "only") == 0.0


def test_two_kinds_that_no_class_joins_are_both_unknown() -> None:
    ratios = NodeClassRatios.of([cell(A, "here", 20), cell(B, "there", 5)])
    assert not ratios.knows("here")
    assert not ratios.knows("there")


def test_a_class_that_was_not_seen_there_is_in_more_doubt() -> None:
    factors = {A: 1.0, B: 2.0, C: 4.0}
    ratios = NodeClassRatios.of(
        [
            cell(key, node, 3.0 * (factor if node == "old" else 1.0), item=str(item))
            for key, factor in factors.items()
            for node in ("old", "new")
            for item in range(4)
        ]
    )
    stranger = ClassKey("wf", "stranger", "")
    assert ratios.doubt(stranger, "old") == ratios.scatter > 0.0
    assert ratios.doubt(B, "old") < ratios.doubt(stranger, "old")
