"""The plan of every shared argo-example differs from it in intended fields only, and is whole."""

import copy
import json
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.cli.documents import parse_documents
from stowplan.cli.yaml_text import yaml_text
from stowplan.kube.argo import MalformedWorkflow, Shelf, is_argo_object, open_object, read_graph
from stowplan.kube.plan import Plan, plan_object
from stowplan.kube.plan.patch import Pointer
from tests.golden.plan.cases import INTENDED, OPTIONS, Json, differences, read_examples


@pytest.fixture(scope="module")
def examples(shared_data: Path) -> dict[str, Json]:
    """Those that are of Argo."""
    found = {key: raw for key, raw in read_examples(shared_data).items() if is_argo_object(raw)}
    assert len(found) > 150
    return found


@pytest.fixture(scope="module")
def shelf(examples: dict[str, Json]) -> Shelf:
    return Shelf(open_object(raw) for raw in examples.values())


def unintended(before: Json, after: Json) -> list[str]:
    """What differs and must not. An affinity and its like are added whole."""
    return [
        pointer
        for pointer in differences(before, after)
        if pointer.startswith("!") or not (INTENDED.fullmatch(pointer) or INTENDED.match(f"{pointer}/"))
    ]


def test_the_comparison_sees_what_it_must() -> None:
    before = {"a": 1, "spec": {"templates": [{"container": {"image": "x"}}, {}]}}
    after = copy.deepcopy(before)
    after["spec"]["templates"][0]["container"]["image"] = "y"  # type: ignore[index]
    assert unintended(before, after) == ["!/spec/templates/0/container/image"]
    assert unintended(before, {"spec": before["spec"], "a": 1}) == ["!"]
    assert unintended(before, {"a": 1}) == ["!"]
    assert unintended(before, {**before, "b": 2}) == ["/b"]


@pytest.mark.parametrize("name", OPTIONS)
def test_plans_of_all_examples(examples: dict[str, Json], shelf: Shelf, name: str) -> None:
    changes = 0
    for key, raw in examples.items():
        before = json.dumps(raw)
        plan = plan_object(raw, OPTIONS[name], source=shelf)
        assert json.dumps(raw) == before, key
        assert unintended(raw, plan.result) == [], key  # type: ignore[arg-type]
        assert jsonpatch.apply_patch(json.loads(before), plan.patch()) == plan.result, key
        assert plan_object(plan.result, OPTIONS[name], source=shelf).operations == (), key
        assert [document for document, _ in parse_documents(yaml_text([plan.result]), key)] == [plan.result]
        assert all(change.reason for change in plan.changes)
        changes += len(plan.changes)
    assert (changes > 500) == (name != "strict")


def test_planned_workflows_have_the_same_tasks(examples: dict[str, Json], shelf: Shelf) -> None:
    compared = 0
    for key, raw in examples.items():
        plan = plan_object(raw, OPTIONS["binder"], source=shelf)
        if any("not given" in note or "no entry point" in note for note in plan.notes):
            continue
        before, after = (read_graph(open_object(item), shelf) for item in (raw, plan.result))
        assert [(n.place, n.template, n.parents, n.chance) for n in before.nodes] == [
            (n.place, n.template, n.parents, n.chance) for n in after.nodes
        ], key
        compared += 1
    assert compared > 140


VALUES = st.sampled_from(
    [None, "", "x", "{{inputs.parameters.x}}", {}, {"cpu": "1"}, {"nodeAffinity": {}}, [], 0, "nope: y\n"]
)
WORDS = (
    "schedulerName priorityClassName podPriorityClassName podSpecPatch podMetadata metadata affinity "
    "resources templateDefaults unknown-field podResources annotations"
)
KEYS = st.sampled_from(WORDS.split())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_examples_keep_everything_and_need_no_second_plan(
    examples: dict[str, Json], shelf: Shelf, data: st.DataObject
) -> None:
    raw = copy.deepcopy(examples[data.draw(st.sampled_from(sorted(examples)))])
    for _ in range(data.draw(st.integers(1, 4))):
        places = _mappings(raw["spec"])
        place = data.draw(st.sampled_from(places))
        place[data.draw(KEYS)] = copy.deepcopy(data.draw(VALUES))
    options = OPTIONS[data.draw(st.sampled_from(sorted(OPTIONS)))]
    before = json.dumps(raw)
    try:
        plan = plan_object(raw, options, source=shelf)
    except MalformedWorkflow:
        return
    finally:
        assert json.dumps(raw) == before
    assert [pointer for pointer in differences(raw, plan.result) if pointer.startswith("!")] == [
        f"!{operation.to_json()['path']}"
        for operation in plan.operations
        if operation.op == "replace" and operation.value is not None and _was(plan, operation.path) == ""
    ]
    assert jsonpatch.apply_patch(json.loads(before), plan.patch()) == plan.result
    assert plan_object(plan.result, options, source=shelf).operations == ()
    assert [document for document, _ in parse_documents(yaml_text([plan.result]), "x")] == [plan.result]


def _was(plan: Plan, path: Pointer) -> object:
    """What a plan's operation found there, which it tests for first."""
    return next(item.value for item in plan.operations if item.op == "test" and item.path == path)


def _mappings(value: object) -> list[Json]:
    """All mappings in a value, itself included."""
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in _mappings(item))]
    if isinstance(value, list):
        return [found for item in value for found in _mappings(item)]
    return []
