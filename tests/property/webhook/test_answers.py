"""Whatever object comes, the answer is one that the API server takes, and what it does not know stays."""

import copy
import json
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.plan import Mode, PlanOptions, Preference, plan_object
from stowplan.serve.webhook.admission import Admission, Result
from tests.golden.plan.cases import differences
from tests.unit.argo.cases import container, dag, steps, task, workflow
from tests.unit.webhook.reviews import mutated, patch_of, validated

Json = dict[str, Any]

OPTIONS = (
    PlanOptions(preferences=(Preference("zone", ("a",)),)),
    PlanOptions(mode=Mode.GATE),
    PlanOptions(mode=Mode.EXTENDER, priority_classes=("low", "high")),
)

BASE = workflow(
    dag(
        "main",
        task("a"),
        task("b", "group", depends="a"),
        {"name": "c", "inline": {"container": {"image": "x"}}},
    ),
    steps("group", [task("s")], [task("t", withItems=[1, 2])]),
    container("leaf"),
    podMetadata={"labels": {"x": "y"}},
)

WORDS = (
    "name template spec metadata templates dag tasks steps container inline affinity annotations resources "
    "schedulerName priorityClassName podSpecPatch workflowTemplateRef templateDefaults unknown arguments "
    "withItems depends when hooks a/b c~d"
)
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def _places(value: object) -> list[Any]:
    """All mappings and lists in a value, itself included."""
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in _places(item))]
    if isinstance(value, list):
        return [value, *(found for item in value for found in _places(item))]
    return []


@st.composite
def objects(draw: st.DrawFn) -> Json:
    """A workflow in which a few places hold something else."""
    raw = copy.deepcopy(BASE)
    raw["kind"] = draw(
        st.sampled_from(["Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"])
    )
    if raw["kind"] == "CronWorkflow":
        raw["spec"] = {"schedules": ["@daily"], "workflowSpec": raw["spec"]}
    for _ in range(draw(st.integers(0, 4))):
        place: Any = draw(st.sampled_from(_places(raw["spec"]) or [raw]))
        if isinstance(place, dict):
            place[draw(KEYS)] = draw(JSON)
        elif place:
            place[draw(st.integers(0, len(place) - 1))] = draw(JSON)
    return raw


@settings(max_examples=300)
@given(raw=objects(), number=st.integers(0, len(OPTIONS) - 1))
def test_the_patch_applied_is_the_plan_and_loses_nothing(raw: Json, number: int) -> None:
    options = OPTIONS[number]
    sent = json.loads(json.dumps(raw))
    result, response = mutated(Admission(options), raw)
    assert response["allowed"] is True
    assert result in {Result.PLANNED, Result.UNCHANGED, Result.MALFORMED, Result.UNREADABLE}
    patch = patch_of(response)
    patched = jsonpatch.apply_patch(sent, patch)
    # What was there is there as it was, except where the patch says that it replaces it.
    replaced = {f"!{operation['path']}" for operation in patch if operation["op"] == "replace"}
    assert {path for path in differences(raw, patched) if path.startswith("!")} <= replaced
    if result in {Result.PLANNED, Result.UNCHANGED}:
        assert patched == plan_object(raw, options).result
        assert mutated(Admission(options), patched)[0] is Result.UNCHANGED


@settings(max_examples=300)
@given(raw=objects())
def test_refused_is_exactly_what_cannot_be_planned(raw: Json) -> None:
    """Both paths read by the same rules: what one refuses, the other leaves alone."""
    asked = Admission(OPTIONS[0])
    result, response = validated(asked, raw)
    planned, _ = mutated(asked, raw)
    if result is Result.REFUSED:
        assert planned is Result.MALFORMED
        causes = response["status"]["details"]["causes"]
        assert causes
        assert all(cause["field"] and cause["message"] for cause in causes)
    else:
        assert result is Result.VALID


@settings(max_examples=200)
@given(
    raw=JSON, operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]), is_ours=st.booleans()
)
def test_any_json_gets_an_answer(raw: object, operation: str, is_ours: bool) -> None:
    if is_ours and isinstance(raw, dict):
        raw = {**raw, "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate"}
    for ask in (mutated, validated):
        _, response = ask(Admission(OPTIONS[0]), raw, kind="WorkflowTemplate", operation=operation, old=raw)
        assert response["allowed"] in {True, False}
