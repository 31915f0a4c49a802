"""The shrinker: what is left shows the same, and nothing of it can go."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.differential.shrink import shrink, shrink_list

Object = dict[str, Any]


@settings(max_examples=60)
@given(st.sets(st.integers(0, 40), max_size=6))
def test_only_the_needed_items_are_left(needed: set[int]) -> None:
    assert shrink_list(list(range(41)), lambda left: needed <= set(left)) == sorted(needed)


def test_fields_and_elements_go_too() -> None:
    objects: list[Object] = [
        {"kind": "Node", "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"taints": [1]}},
        {"kind": "Node", "metadata": {"name": "b"}},
        {
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"list": [{"k": 1, "l": 2}, {"k": 2}], "more": {}},
        },
    ]
    given_objects = copy.deepcopy(objects)

    def is_wrong(some: Sequence[Object]) -> bool:
        by_name = {one["metadata"]["name"]: one for one in some if "metadata" in one}
        labels = by_name.get("a", {}).get("metadata", {}).get("labels", {})
        return labels.get("y") == "2" and any(
            one.get("l") == 2 for one in by_name.get("p", {}).get("spec", {}).get("list", [])
        )

    assert shrink(objects, is_wrong) == [
        {"kind": "Node", "metadata": {"name": "a", "labels": {"y": "2"}}},
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"list": [{"l": 2}]}},
    ]
    assert objects == given_objects


def test_what_does_not_show_it_is_refused() -> None:
    with pytest.raises(ValueError, match="do not show what is looked for"):
        shrink([{"kind": "Node"}], lambda _: False)
