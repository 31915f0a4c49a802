"""What is answered to an object: its plan, or what is wrong with it; nobody is stopped by mistake."""

import copy
import json
from typing import Any

import jsonpatch
import pytest

from stowplan.core.domain import ClassKey
from stowplan.kube.argo import ControllerSettings, Shelf, open_object
from stowplan.kube.plan import (
    GATE,
    RANK,
    History,
    Mode,
    PlanOptions,
    Preference,
    Referencing,
    plan_object,
)
from stowplan.serve.webhook.admission import Admission, Result
from stowplan.serve.webhook.review import NotReadable, read_review
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.webhook.reviews import mutated, patch_of, review, validated

Json = dict[str, Any]

DIAMOND = workflow(dag("main", task("a"), task("b", depends="a")), container("leaf"), future={"x": 1})
TEMPLATE = workflow(container("leaf"), kind="WorkflowTemplate", name="lib", entrypoint="leaf")
CALLER = workflow(name="caller", workflowTemplateRef={"name": "lib"})
BORROWER = workflow(dag("main", {"name": "a", "templateRef": {"name": "lib", "template": "gone"}}))
WRONG = workflow(container("leaf", inputs={"parameters": [{"name": False, "value": "3"}]}))
WRONG_PATH = "spec.templates[0].inputs.parameters[0].name"
BROKEN = workflow(dag("main", task("a", "nowhere")))
"""Right in all its types, but one of its templates is not there."""


def shelf(*raws: Json) -> Shelf:
    return Shelf(open_object(raw) for raw in raws)


# ── mutate ──


def test_the_patch_is_the_plan_and_needs_no_second_one() -> None:
    options = PlanOptions()
    before = json.dumps(DIAMOND)
    result, response = mutated(Admission(options), DIAMOND)

    assert (result, response["allowed"]) == (Result.PLANNED, True)
    planned = jsonpatch.apply_patch(json.loads(before), patch_of(response))
    assert planned == plan_object(DIAMOND, options).result
    assert planned["spec"]["schedulerName"] == "stowplan"
    assert planned["spec"]["templates"][1]["metadata"]["annotations"][RANK] == "120.0"
    assert planned["spec"]["future"] == {"x": 1}
    # Other webhooks may make the API server ask again.
    result, response = mutated(Admission(options), planned)
    assert (result, patch_of(response)) == (Result.UNCHANGED, [])


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_is_answered_alike(dry_run: bool) -> None:
    assert (
        mutated(Admission(PlanOptions()), DIAMOND, dry_run=dry_run)[1]
        == (mutated(Admission(PlanOptions()), DIAMOND)[1])
    )


def test_all_four_kinds_are_planned() -> None:
    cron: Json = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "nightly", "namespace": "jobs"},
        "spec": {"schedules": ["0 3 * * *"], "workflowSpec": DIAMOND["spec"]},
    }
    cluster: Json = {**TEMPLATE, "kind": "ClusterWorkflowTemplate", "metadata": {"name": "lib"}}
    for raw, path in (
        (DIAMOND, "/spec/schedulerName"),
        (TEMPLATE, "/spec/schedulerName"),
        (cluster, "/spec/schedulerName"),
        (cron, "/spec/workflowSpec/schedulerName"),
    ):
        result, response = mutated(
            Admission(PlanOptions()), raw, namespace=raw["metadata"].get("namespace", "")
        )
        assert result is Result.PLANNED
        assert path in {operation["path"] for operation in patch_of(response)}, raw["kind"]


def test_gate_mode_holds_the_pods_by_the_workflow_s_pod_patch() -> None:
    _, response = mutated(Admission(PlanOptions(mode=Mode.GATE)), DIAMOND)
    planned = jsonpatch.apply_patch(DIAMOND, patch_of(response))
    assert json.loads(planned["spec"]["podSpecPatch"]) == {"schedulingGates": [{"name": GATE}]}


def test_extender_mode_writes_priority_classes() -> None:
    options = PlanOptions(mode=Mode.EXTENDER, priority_classes=("low", "high"))
    raw = workflow(
        dag("main", task("a", "first"), task("b", "second", depends="a")),
        container("first"),
        container("second"),
    )
    _, response = mutated(Admission(options), raw)
    planned = jsonpatch.apply_patch(raw, patch_of(response))["spec"]
    assert [item.get("priorityClassName") for item in planned["templates"]] == [None, "high", "low"]
    assert "schedulerName" not in planned


def test_the_history_is_asked_anew_for_each_object() -> None:
    known: dict[str, float] = {}

    def seconds(key: ClassKey) -> float | None:
        return known.get(key.template)

    admission = Admission(PlanOptions(), history=lambda: History(seconds))
    ranks: list[str] = []
    for leaf_s in (None, 10.0):
        known.update({} if leaf_s is None else {"leaf": leaf_s})
        planned = jsonpatch.apply_patch(DIAMOND, patch_of(mutated(admission, DIAMOND)[1]))
        ranks.append(planned["spec"]["templates"][1]["metadata"]["annotations"][RANK])
    assert ranks == ["120.0", "20.0"]


def test_a_workflow_that_may_only_refer_is_left_alone_under_strict_referencing() -> None:
    options = PlanOptions(referencing=Referencing.STRICT)
    for source in (None, shelf(TEMPLATE)):
        result, response = mutated(Admission(options, source=source), CALLER)
        assert (result, patch_of(response)) == (Result.UNCHANGED, [])
        assert any("strict" in warning for warning in response["warnings"])
    # What it refers to is planned where it is written.
    assert mutated(Admission(options), TEMPLATE)[0] is Result.PLANNED


def test_a_template_that_is_not_known_is_no_reason_to_refuse_or_to_overrule_it() -> None:
    result, response = mutated(Admission(PlanOptions()), CALLER)
    assert result is Result.PLANNED
    assert "/spec/schedulerName" not in {operation["path"] for operation in patch_of(response)}
    assert validated(Admission(PlanOptions()), CALLER)[0] is Result.VALID
    _, response = mutated(Admission(PlanOptions(), source=shelf(TEMPLATE)), CALLER)
    assert "/spec/schedulerName" in {operation["path"] for operation in patch_of(response)}


def test_an_object_without_a_namespace_is_looked_up_in_that_of_the_request() -> None:
    raw = copy.deepcopy(CALLER)
    del raw["metadata"]["namespace"]
    _, response = mutated(Admission(PlanOptions(), source=shelf(TEMPLATE)), raw, namespace="jobs")
    assert "/spec/schedulerName" in {operation["path"] for operation in patch_of(response)}
    assert "namespace" not in jsonpatch.apply_patch(raw, patch_of(response))["metadata"]


def test_what_is_malformed_passes_with_the_reason() -> None:
    result, response = mutated(Admission(PlanOptions()), WRONG)
    assert (result, response["allowed"], patch_of(response)) == (Result.MALFORMED, True, [])
    assert response["warnings"][0].startswith(f"stowplan: not planned: {WRONG_PATH} is False; write text")


def test_in_shadow_mode_nothing_is_patched_or_refused() -> None:
    admission = Admission(PlanOptions(), is_shadow=True)
    for (result, response), expected in (
        (mutated(admission, DIAMOND), Result.SHADOW),
        (validated(admission, DIAMOND), Result.VALID),
        (validated(admission, WRONG), Result.SHADOW),
    ):
        assert result is expected
        assert response == {"uid": response["uid"], "allowed": True}


@pytest.mark.parametrize(("most", "told"), [(0, 0), (1, 1), (2, 2), (20, 12)])
def test_warnings_are_few_and_tell_that_there_are_more(most: int, told: int) -> None:
    leaves = [container(f"t{number}", schedulerName=f"of-{number}" + "x" * 120) for number in range(12)]
    raw = workflow(dag("main", *(task(f"a{number}", f"t{number}") for number in range(12))), *leaves)
    warnings = mutated(Admission(PlanOptions(), most_warnings=most), raw)[1].get("warnings", [])
    assert len(warnings) == told
    assert [warning.endswith("tells all") for warning in warnings[-1:]] == ([told < 12] if told else [])


def test_a_control_character_in_a_key_does_not_lose_the_warning() -> None:
    raw = workflow(container("leaf"), hooks={"a\x08\u202eb": {"template": "leaf"}})
    (warning,) = mutated(Admission(PlanOptions()), raw)[1]["warnings"]
    assert "spec.hooks.a\\u0008\\u202eb.expression is None" in warning


@pytest.mark.parametrize("mode", Mode)
def test_who_submits_is_not_told_what_only_the_operator_can_mend(mode: Mode) -> None:
    options = PlanOptions(mode=mode)
    assert bool(plan_object(DIAMOND, options).advice) == (mode is not Mode.BINDER)
    assert "warnings" not in mutated(Admission(options), DIAMOND)[1]


# ── validate ──


@pytest.mark.parametrize("refuse", ["rules", "types"])
def test_a_boolean_where_a_name_belongs_is_refused_with_its_path(refuse: Any) -> None:  # noqa: ANN401 (a literal)
    result, response = validated(Admission(PlanOptions(), refuse=refuse), WRONG)
    assert result is Result.REFUSED
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"].startswith(f"Workflow jobs/wf: {WRONG_PATH} is False; write text")
    assert status["details"] == {
        "name": "wf",
        "group": "argoproj.io",
        "kind": "Workflow",
        "causes": [
            {
                "reason": "FieldValueInvalid",
                "field": WRONG_PATH,
                "message": "is False; write text; quote what YAML reads as something else",
            }
        ],
    }


def test_every_fault_is_told_at_once() -> None:
    raw = workflow(container("leaf", priorityClassName=3), dag("main", task("a", daemon=1)), parallelism="x")
    _, response = validated(Admission(PlanOptions()), raw)
    fields = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert fields == ["spec.templates[0].priorityClassName", "spec.parallelism"]
    assert all(field in response["status"]["message"] for field in fields)


def test_a_breach_of_the_rules_is_refused_unless_only_types_are() -> None:
    result, response = validated(Admission(PlanOptions()), BROKEN)
    assert result is Result.REFUSED
    assert "spec.templates[0].dag.tasks[0].template is 'nowhere'" in response["status"]["message"]
    result, response = validated(Admission(PlanOptions(), refuse="types"), BROKEN)
    assert result is Result.VALID
    assert "nowhere" in response["warnings"][0]


def test_what_only_the_known_templates_tell_is_a_doubt() -> None:
    """The watch may be a moment behind: a template that was just added to `lib` must not be refused."""
    result, response = validated(Admission(PlanOptions(), source=shelf(TEMPLATE)), BORROWER)
    assert result is Result.VALID
    assert "spec.templates[0].dag.tasks[0].templateRef.template is 'gone'" in response["warnings"][0]
    assert "warnings" not in validated(Admission(PlanOptions()), BORROWER)[1]


def test_what_the_controller_adds_to_workflows_is_known() -> None:
    """`workflowDefaults` may name the entry point."""
    raw = workflow(container("leaf"), entrypoint=None)
    assert validated(Admission(PlanOptions()), raw)[0] is Result.REFUSED
    settings = ControllerSettings(workflow_defaults={"entrypoint": "leaf"})
    assert validated(Admission(PlanOptions(settings=settings)), raw)[0] is Result.VALID


def test_a_right_workflow_is_admitted_without_a_word() -> None:
    result, response = validated(Admission(PlanOptions(), source=shelf(TEMPLATE)), DIAMOND)
    assert result is Result.VALID
    assert set(response) == {"uid", "allowed"}


def test_an_update_is_refused_for_what_it_makes_wrong_only() -> None:
    before: Json = {**WRONG, "kind": "WorkflowTemplate"}
    worse = copy.deepcopy(before)
    worse["spec"]["parallelism"] = "many"
    admission = Admission(PlanOptions())

    result, response = validated(admission, worse, operation="UPDATE", old=before)
    assert result is Result.REFUSED
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.parallelism"]
    result, response = validated(admission, before, operation="UPDATE", old=worse)
    assert result is Result.MALFORMED
    assert response["warnings"][0].startswith(f"stowplan: as before, {WRONG_PATH} is False")
    assert validated(admission, worse, operation="UPDATE", old=TEMPLATE)[0] is Result.REFUSED


# ── what is not reviewed ──


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (DIAMOND, {"operation": "UPDATE", "old": DIAMOND}),
        (DIAMOND, {"operation": "DELETE"}),
        (DIAMOND, {"subResource": "status"}),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, {}),
        ({"apiVersion": "other.io/v1", "kind": "Workflow"}, {}),
        (None, {"kind": "Workflow"}),
    ],
    ids=["update", "delete", "subresource", "kind", "group", "nothing"],
)
def test_everything_else_passes_untouched(raw: object, fields: Json) -> None:
    for ask in (mutated, validated):
        result, response = ask(Admission(PlanOptions()), raw, **fields)
        assert (result, set(response)) == (Result.IGNORED, {"uid", "allowed"})
        assert response["allowed"] is True


@pytest.mark.parametrize("raw", ["text", [1]], ids=["text", "list"])
def test_an_object_that_cannot_be_read_passes_with_a_word(raw: object) -> None:
    for ask in (mutated, validated):
        result, response = ask(Admission(PlanOptions()), raw, kind="Workflow")
        assert result is Result.UNREADABLE
        assert "it must be a mapping" in response["warnings"][0]


@pytest.mark.parametrize("depth", [300, 800, 950, 5000, 200_000])
def test_an_object_that_is_nested_deep_where_it_may_hold_anything_passes(depth: int) -> None:
    """The API server takes ten thousand levels; whatever gives up first here must not be a defect."""
    raw = copy.deepcopy(DIAMOND)
    raw["spec"]["affinity"] = {"nodeAffinity": "DEEP"}
    body = review(raw).replace(b'"DEEP"', b"[" * depth + b"]" * depth)
    admission = Admission(PlanOptions(preferences=(Preference("zone", ("a",)),)))
    try:
        asked = read_review(body)
    except NotReadable as error:
        assert "nested too deep" in str(error)  # noqa: PT017 (the envelope may be readable, or not)
        return
    for verdict in (admission.mutate(asked), admission.validate(asked)):
        assert verdict.answer.refusal is None
        if verdict.result is Result.UNREADABLE:
            assert "nested too deep" in verdict.answer.warnings[0]


@pytest.mark.parametrize("depth", [50, 160, 220])
def test_templates_within_templates_are_no_defect_however_deep(depth: int) -> None:
    inner: Json = {"container": {"image": "x"}}
    for _ in range(depth):
        inner = {"dag": {"tasks": [{"name": "a", "inline": inner}]}}
    raw = workflow({"name": "main", **inner})
    result, _ = validated(Admission(PlanOptions()), raw)
    assert result is (Result.VALID if depth == 50 else Result.REFUSED)
    assert mutated(Admission(PlanOptions()), raw)[0] is (Result.PLANNED if depth == 50 else Result.MALFORMED)


# ── the envelope ──


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is no AdmissionReview"),
        (b"[]", "is no AdmissionReview"),
        (b"\xff{}", "is no AdmissionReview"),
        (b"{}", "send a AdmissionReview of admission.k8s.io/v1"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}', "v1beta1"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "no request with a uid"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}', "uid"),
        (b"[" * 100_000, "is no AdmissionReview"),
    ],
    ids=["empty", "list", "no-text", "mapping", "version", "no-request", "no-uid", "deep"],
)
def test_what_is_no_review_is_told(body: bytes, words: str) -> None:
    with pytest.raises(NotReadable, match=words):
        read_review(body)
