"""Fan-outs: items, and widths that are known, unknown, or known without making the items."""

import sys
import tracemalloc

import pytest

from stowplan.kube.argo.fanout import FanoutError, read_fanout

ITEM_CASES = [
    ("a", "a", {"item": "a"}),
    (3, "3", {"item": "3"}),
    (True, "true", {"item": "true"}),
    (
        {"os": "linux", "v": 12},
        "os:linux,v:12",
        {"item": '{"os":"linux","v":12}', "item.os": "linux", "item.v": "12"},
    ),
    (["a", 1], "[a 1]", {"item": '["a",1]'}),
    ("f(x)", "fx", {"item": "f(x)"}),
]


@pytest.mark.parametrize(("item", "label", "values"), ITEM_CASES)
def test_items_carry_what_the_controller_makes_of_them(item: object, label: str, values: dict) -> None:
    fanout = read_fanout({"withItems": [item]}, {})
    assert fanout is not None
    assert fanout.items is not None
    assert fanout.items[0].label == label
    assert dict(fanout.items[0].values) == values


@pytest.mark.parametrize(
    ("holder", "width"),
    [
        ({"withParam": '["a", "b", "c"]'}, 3),
        ({"withParam": "[]"}, 0),
        ({"withParam": "{{inputs.parameters.list}}"}, 2),
        ({"withParam": "{{tasks.a.outputs.result}}"}, None),
        ({"withParam": "{{=toJson(x)}}"}, None),
        ({"withParam": '["{{tasks.a.outputs.result}}", "b"]'}, 2),
        ({"withSequence": {"count": "5"}}, 5),
        ({"withSequence": {"count": 0}}, 0),
        ({"withSequence": {"start": "100", "end": "105"}}, 6),
        ({"withSequence": {"start": "5", "end": "0"}}, 6),
        ({"withSequence": {"count": "{{inputs.parameters.n}}"}}, 4),
        ({"withSequence": {"count": "{{tasks.a.outputs.result}}"}}, None),
        ({"withItems": ["a", "{{inputs.parameters.n}}"]}, 2),
        ({}, None),
    ],
)
def test_widths(holder: dict, width: int | None) -> None:
    variables = {"inputs.parameters.list": '["x", {"y": 1}]', "inputs.parameters.n": "4"}
    fanout = read_fanout(holder, variables)
    assert (fanout.width if fanout is not None else None) == width
    assert (fanout is None) == (not holder)
    if fanout is not None and width is None:
        assert "{{" in fanout.expression


@pytest.mark.parametrize(
    ("sequence", "labels"),
    [
        ({"count": "3"}, ["0", "1", "2"]),
        ({"start": "2", "end": "0"}, ["2", "1", "0"]),
        ({"start": "9", "count": "2", "format": "host%03d.x"}, ["host009.x", "host010.x"]),
        ({"start": "10", "count": "2", "format": "u%02X"}, ["u0A", "u0B"]),
        ({"count": "1", "format": "100%%"}, ["100%"]),
        ({"start": "-2", "count": "2", "format": "%+04d"}, ["-002", "-001"]),
        ({"count": "2", "format": "%-3d|"}, ["0  |", "1  |"]),
        ({"start": "8", "count": "1", "format": "%#x"}, ["0x8"]),
        ({"start": "8", "count": "1", "format": "%5v"}, ["    8"]),
    ],
)
def test_sequences_are_formatted_as_go_does(sequence: dict, labels: list[str]) -> None:
    fanout = read_fanout({"withSequence": sequence}, {})
    assert fanout is not None
    assert fanout.items is not None
    assert [item.label for item in fanout.items] == labels


def test_a_format_that_is_not_understood_leaves_the_width_known() -> None:
    fanout = read_fanout({"withSequence": {"count": "3", "format": "%q"}}, {})
    assert fanout is not None
    assert (fanout.width, fanout.items) == (3, None)


def test_a_million_items_take_no_memory() -> None:
    tracemalloc.start()
    try:
        fanout = read_fanout({"withSequence": {"count": "1000000", "format": "n%07d"}}, {})
        assert fanout is not None
        assert fanout.items is not None
        assert fanout.items[999_999].label == "n0999999"
        assert fanout.items[10:12][1].label == "n0000011"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("holder", "key"),
    [
        ({"withItems": ["a"], "withParam": "[]"}, "withParam"),
        ({"withParam": "not json"}, "withParam"),
        ({"withParam": '{"a": 1}'}, "withParam"),
        ({"withSequence": {}}, "withSequence"),
        ({"withSequence": {"count": "1", "end": "2"}}, "withSequence"),
        ({"withSequence": {"count": "many"}}, "withSequence.count"),
        ({"withSequence": {"start": "1.5", "count": "2"}}, "withSequence.start"),
        ({"withParam": "[" * (sys.getrecursionlimit() * 30)}, "withParam"),
    ],
)
def test_what_could_never_be_expanded_is_refused(holder: dict, key: str) -> None:
    with pytest.raises(FanoutError) as caught:
        read_fanout(holder, {})
    assert caught.value.key == key
