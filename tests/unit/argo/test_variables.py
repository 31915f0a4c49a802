"""Variables are put in where they are known, and left with their reason where they are not."""

import pytest

from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo.variables import go_text, put_in, tags_in, variables_in

KNOWN = {
    "workflow.parameters.zone": "east",
    "inputs.parameters.a-b": "x",
    "inputs.parameters.z east": "spaced",
    "item": "zone",
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("{{workflow.parameters.zone}}-1", "east-1"),
        ("{{ workflow.parameters.zone }}", "east"),
        ("{{tasks.a.outputs.result}}/{{item}}", "{{tasks.a.outputs.result}}/zone"),
        ("{{workflow.parameters.{{other}}}}", "{{workflow.parameters.{{other}}}}"),
        ("{{=workflow.parameters.zone}}", "east"),
        ("{{=inputs.parameters['a-b']}}", "x"),
        ('{{= inputs.parameters["a-b"] }}', "x"),
        ("{{=workflow.parameters.zone + 'x'}}", "{{=workflow.parameters.zone + 'x'}}"),
        ("{{=sprig.upper(item)}}", "{{=sprig.upper(item)}}"),
        ("{{.Values.x}} {{", "{{.Values.x}} {{"),
    ],
)
def test_put_in(text: str, result: str) -> None:
    assert put_in(text, KNOWN) == result


def test_keys_and_lists_are_reached_and_untouched_parts_are_shared() -> None:
    untouched = {"deep": ["a", {"b": 1}]}
    value = {"same": untouched, "list": ["{{item}}", None, True], "{{item}}": "k"}
    result = put_in(value, KNOWN)
    assert result == {"same": untouched, "list": ["zone", None, True], "zone": "k"}
    assert isinstance(result, dict)
    assert result["same"] is untouched
    assert put_in(untouched, KNOWN) is untouched
    assert value["list"] == ["{{item}}", None, True]


def test_tags_are_found_everywhere() -> None:
    assert tags_in({"{{a}}": [{"x": "{{ b }}{{c}}"}], "n": 1}) == {"a", "b", "c"}
    assert variables_in("{{b}}{{a}}{{b}}") == ("b", "a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (3, "3"),
        (True, "true"),
        (1.0, "1"),
        (0.5, "0.5"),
        ([1, "é"], '[1,"é"]'),
        (10**20, str(10**20)),
    ],
)
def test_values_become_text_as_go_makes_it(value: object, text: str) -> None:
    assert go_text(value) == text


def test_braces_without_end_are_read_in_time() -> None:
    text = "}}" + "{{" * 1_000_000
    assert put_in(text, KNOWN) == text
    assert variables_in(text) == ()


def test_a_text_that_doubles_at_every_call_is_refused() -> None:
    with pytest.raises(InvalidWorkflow, match="grows beyond"):
        put_in("{{x}}" * 50_000, {"x": "y" * 1000})
