"""What each part of a plan writes, what it leaves alone, and what it says about it."""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from stowplan.core.domain import ClassKey
from stowplan.errors import InvalidInput
from stowplan.kube.argo import MalformedWorkflow, Shelf, open_object, read_graph
from stowplan.kube.plan import (
    GATE,
    ORIGIN,
    RANK,
    History,
    Mode,
    Plan,
    PlanOptions,
    Preference,
    Referencing,
    Requests,
    plan_object,
)
from stowplan.kube.plan.outcome import shown_path
from tests.unit.argo.cases import Json, container, dag, steps, task, workflow

ZONE = Preference("topology.kubernetes.io/zone", ("a", "b"))
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def planned(raw: Json, *known: Json, history: History | None = None, **options: Any) -> Plan:  # noqa: ANN401 (whatever PlanOptions takes)
    """The plan for an object, which leaves it alone, agrees with its patch and needs no second one."""
    before = copy.deepcopy(raw)
    chosen, source = PlanOptions(**options), Shelf(open_object(item) for item in known)
    plan = plan_object(raw, chosen, source=source, history=history)
    assert raw == before
    assert jsonpatch.apply_patch(json.loads(json.dumps(raw)), plan.patch()) == plan.result
    assert plan_object(plan.result, chosen, source=source, history=history).operations == ()
    return plan


def changed(plan: Plan) -> dict[str, object]:
    return {shown_path(change.path): change.value for change in plan.changes}


def kept(plan: Plan) -> dict[str, str]:
    return {shown_path(item.path): item.reason for item in plan.kept}


def said(plan: Plan) -> str:
    return "\n".join(plan.why())


def template(*templates: Json, **spec: Any) -> Json:  # noqa: ANN401 (the same)
    return workflow(*templates, kind="WorkflowTemplate", name="lib", **spec)


def diamond(**spec: Any) -> Json:  # noqa: ANN401 (fields of a specification)
    return workflow(
        dag(
            "all",
            task("a", "first"),
            task("b", "long", depends="a"),
            task("c", "short", depends="a"),
            task("d", "last", depends="b && c"),
        ),
        *map(container, ("first", "long", "short", "last")),
        **spec,
    )


def key(template: str, place: str) -> ClassKey:
    return ClassKey("name/wf", template, place)


# ── scheduler ──


def test_binder_mode_names_the_scheduler_once_for_all_pods() -> None:
    plan = planned(diamond())
    assert changed(plan)["spec.schedulerName"] == "stowplan"
    graph = read_graph(open_object(plan.result))
    assert {node.pod.shape.scheduler_name for node in graph.nodes if node.pod} == {"stowplan"}


@pytest.mark.parametrize("mode", [Mode.GATE, Mode.EXTENDER])
def test_other_modes_name_a_scheduler_only_when_told(mode: Mode) -> None:
    assert "spec.schedulerName" not in changed(planned(diamond(), mode=mode))
    told = planned(diamond(), mode=mode, scheduler_name="with-extender")
    assert changed(told)["spec.schedulerName"] == "with-extender"


def test_a_scheduler_that_the_author_names_stays() -> None:
    plan = planned(diamond(schedulerName="volcano"))
    assert "spec.schedulerName" not in changed(plan)
    assert "pods of it do not come to stowplan" in kept(plan)["spec.schedulerName"]


@pytest.mark.parametrize("name", ["volcano", "{{workflow.parameters.scheduler}}"])
def test_a_template_with_a_scheduler_of_its_own_is_told_and_left(name: str) -> None:
    raw = workflow(
        container("main", schedulerName=name),
        arguments={"parameters": [{"name": "scheduler", "value": "volcano"}]},
    )
    plan = planned(raw)
    assert changed(plan)["spec.schedulerName"] == "stowplan"
    assert "goes before" in kept(plan)["spec.templates[0].schedulerName"]


def test_defaults_and_patches_that_name_a_scheduler_are_told() -> None:
    plan = planned(diamond(templateDefaults={"schedulerName": "volcano"}))
    assert "goes before" in kept(plan)["spec.templateDefaults.schedulerName"]
    plan = planned(workflow(container("main", podSpecPatch="schedulerName: volcano")))
    assert "applied last" in kept(plan)["spec.templates[0].podSpecPatch"]
    plan = planned(diamond(podSpecPatch="schedulerName: volcano"))
    assert "spec.schedulerName" not in changed(plan)
    assert "applied last" in kept(plan)["spec.podSpecPatch"]


def test_a_borrowed_template_with_a_scheduler_of_its_own_is_told() -> None:
    library = template(container("leaf", schedulerName="volcano"))
    call = {"name": "a", "templateRef": {"name": "lib", "template": "leaf"}}
    assert "template lib/leaf stay with volcano" in said(planned(workflow(dag("all", call)), library))


def test_what_the_workflow_template_says_is_not_overruled() -> None:
    library = template(container("main"), entrypoint="main", schedulerName="volcano")
    raw = workflow(workflowTemplateRef={"name": "lib"})
    plan = planned(raw, library)
    assert list(changed(plan)) == [f'spec.podMetadata.annotations["{ORIGIN}"]']
    assert "WorkflowTemplate jobs/lib, which it refers to" in kept(plan)["spec.schedulerName"]
    unknown = planned(raw)
    assert "spec.schedulerName" not in changed(unknown)
    assert "it is not given" in said(unknown)
    assert "planned there" in said(unknown)


# ── gate ──


def test_gate_mode_holds_the_pods() -> None:
    plan = planned(diamond(), mode=Mode.GATE)
    graph = read_graph(open_object(plan.result))
    assert {node.pod.shape.scheduling_gates for node in graph.nodes if node.pod} == {(GATE,)}
    assert "have it run" in said(plan)
    assert not any("podSpecPatch" in path for path in changed(planned(diamond())))


def test_a_patch_of_the_author_stays_and_the_missing_gate_is_told() -> None:
    plan = planned(diamond(podSpecPatch="hostIPC: false # theirs"), mode=Mode.GATE)
    assert GATE in kept(plan)["spec.podSpecPatch"]


def test_a_pod_that_names_its_node_gets_no_gate() -> None:
    raw = workflow(container("main", podSpecPatch="nodeName: node-1"))
    plan = planned(raw, mode=Mode.GATE)
    assert "spec.podSpecPatch" not in changed(plan)
    assert "cannot have a gate" in kept(plan)["spec.templates[0].podSpecPatch"]


# ── order ──


def ranks(plan: Plan) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in plan.result["spec"]["templates"]:  # type: ignore[index]
        rank = item.get("metadata", {}).get("annotations", {}).get(RANK)
        if rank is not None:
            found[item["name"]] = rank
    return found


@pytest.mark.parametrize("mode", [Mode.BINDER, Mode.GATE])
def test_ranks_are_the_longest_ways_to_the_end(mode: Mode) -> None:
    history = History({key("long", ".b"): 300.0, key("short", ".c"): 5.0, key("last", ".d"): 10.0}.get)
    plan = planned(diamond(), mode=mode, history=history)
    assert ranks(plan) == {"first": "370.0", "long": "310.0", "short": "15.0", "last": "10.0"}
    assert not any("priorityClassName" in path for path in changed(plan))


def test_a_template_has_the_highest_rank_of_its_tasks() -> None:
    raw = workflow(dag("all", task("a"), task("b", depends="a"), task("c", depends="b")), container("leaf"))
    assert ranks(planned(raw)) == {"leaf": "180.0"}
    assert "each task counts 60 s" in said(planned(raw))


def test_an_old_rank_of_ours_is_renewed_and_other_annotations_stay() -> None:
    raw = workflow(container("main", metadata={"annotations": {"theirs": "1", RANK: "7.0"}}))
    plan = planned(raw)
    assert plan.result["spec"]["templates"][0]["metadata"]["annotations"] == {"theirs": "1", RANK: "60.0"}  # type: ignore[index]


def test_inline_templates_have_ranks() -> None:
    inner = {"container": {"image": "x"}}
    raw = workflow(
        dag("all", {"name": "a", "inline": inner}, {"name": "b", "inline": inner, "depends": "a"}),
    )
    plan = changed(planned(raw))
    assert plan[f'spec.templates[0].dag.tasks[0].inline.metadata.annotations["{RANK}"]'] == "120.0"
    assert plan[f'spec.templates[0].dag.tasks[1].inline.metadata.annotations["{RANK}"]'] == "60.0"
    loop = {"name": "a", "inline": inner, "withItems": ["x", "y"]}
    plan = changed(planned(workflow(steps("all", [loop], [{"name": "b", "inline": inner}]))))
    assert plan[f'spec.templates[0].steps[0][0].inline.metadata.annotations["{RANK}"]'] == "120.0"


def test_extender_mode_maps_ranks_to_the_classes_that_there_are() -> None:
    plan = planned(diamond(), mode=Mode.EXTENDER, priority_classes=("low", "mid", "high"))
    found = {path: value for path, value in changed(plan).items() if "priority" in path}
    assert found == {
        "spec.templates[1].priorityClassName": "high",
        "spec.templates[2].priorityClassName": "mid",
        "spec.templates[3].priorityClassName": "mid",
        "spec.templates[4].priorityClassName": "low",
    }
    assert ranks(plan) == {}
    assert "only priority classes change it" in said(planned(diamond(), mode=Mode.EXTENDER))
    assert "classes are not used" in said(planned(diamond(), priority_classes=("low",)))


def test_priorities_of_the_author_stay() -> None:
    options: Json = {"mode": Mode.EXTENDER, "priority_classes": ("low", "high")}
    plan = planned(diamond(podPriorityClassName="urgent"), **options)
    assert "for all of its pods" in kept(plan)["spec.podPriorityClassName"]
    assert not any("priority" in path for path in changed(plan))
    plan = planned(diamond(templateDefaults={"priorityClassName": "urgent"}), **options)
    assert "for all templates" in kept(plan)["spec.templateDefaults.priorityClassName"]
    assert not any("priority" in path for path in changed(plan))
    plan = planned(diamond(podSpecPatch="priorityClassName: urgent"), **options)
    assert not any("priority" in path for path in changed(plan))
    raw = diamond()
    raw["spec"]["templates"][1]["priorityClassName"] = "urgent"
    plan = planned(raw, **options)
    assert "the template sets it itself" in kept(plan)["spec.templates[1].priorityClassName"]
    assert changed(plan)["spec.templates[4].priorityClassName"] == "low"
    alone = planned(workflow(container("main")), **options)
    assert "the same rank" in said(alone)


def test_a_template_without_an_entry_point_has_no_ranks() -> None:
    plan = planned(template(container("leaf")))
    assert "spec.schedulerName" in changed(plan)
    assert "no entry point" in said(plan)
    assert not any(RANK in path for path in changed(plan))


# ── requests ──


def requests(raw: Json, **more: Any) -> dict[str, object]:  # noqa: ANN401 (passed on)
    return {path: value for path, value in changed(planned(raw, **more)).items() if "resources" in path}


def with_resources(**resources: object) -> Json:
    return workflow({"name": "main", "container": {"image": "x", "resources": resources}})


def test_a_container_that_asks_for_nothing_gets_the_default() -> None:
    where = "spec.templates[0].container.resources.requests"
    wanted = {f"{where}.cpu": "100m", f"{where}.memory": "128Mi"}
    assert requests(workflow(container("main"))) == wanted
    assert requests(workflow(container("main")), requests=None) == {}


def test_each_resource_that_is_set_stays_and_a_limit_stands_for_a_request() -> None:
    where = "spec.templates[0].container.resources.requests"
    assert requests(with_resources(requests={"cpu": "1m"})) == {f"{where}.memory": "128Mi"}
    assert requests(with_resources(limits={"memory": "1Gi"})) == {f"{where}.cpu": "100m"}
    assert requests(with_resources(requests={"cpu": "1m"}, limits={"memory": "1Gi"})) == {}
    assert requests(with_resources(limits={"nvidia.com/gpu": 1})).keys() == {
        f"{where}.cpu",
        f"{where}.memory",
    }


def test_a_request_that_is_a_variable_stays() -> None:
    raw = workflow(
        {
            "name": "main",
            "inputs": {"parameters": [{"name": "cpu", "value": "1"}]},
            "container": {
                "image": "x",
                "resources": {"requests": {"cpu": "{{inputs.parameters.cpu}}", "memory": "1Gi"}},
            },
        }
    )
    assert requests(raw) == {}


def test_the_history_fills_in_what_the_neediest_class_used() -> None:
    raw = workflow(dag("all", task("a"), task("b", depends="a")), container("leaf"))
    needed = {
        key("leaf", ".a"): Requests(2000, 1 << 30),
        key("leaf", ".b"): Requests(500, (3 << 30) + 1),
    }
    history = History(requests=needed.get)
    where = "spec.templates[1].container.resources.requests"
    assert requests(raw, history=history) == {f"{where}.cpu": "2000m", f"{where}.memory": "3073Mi"}


def test_what_sets_resources_elsewhere_is_respected() -> None:
    defaults = {"container": {"image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}}
    assert requests(workflow(container("main"), templateDefaults=defaults)) == {}
    elsewhere: list[Json] = [
        {"podResources": {"requests": {"cpu": "1"}}},
        {"podSpecPatch": "containers: [{resources: }]"},
    ]
    for fields in elsewhere:
        assert requests(workflow(container("main", **fields))) == {}
        assert requests(workflow(container("main"), **fields)) == {}
        assert kept(planned(workflow(container("main", **fields))))


def test_a_container_set_asks_once_and_other_templates_not_at_all() -> None:
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
    where = "spec.templates[0].containerSet.containers[0].resources.requests"
    found = requests(workflow({"name": "main", "containerSet": {"containers": containers}}))
    assert found.keys() == {f"{where}.cpu", f"{where}.memory"}
    asking = [containers[0], {**containers[1], "resources": {"limits": {"cpu": "1"}}}]
    assert requests(workflow({"name": "main", "containerSet": {"containers": asking}})) == {}
    for other in ({"suspend": {}}, {"resource": {"action": "get", "manifest": "{}"}}):
        assert requests(workflow({"name": "main", **other})) == {}


# ── placement ──


def test_preferred_nodes_are_written_once_for_the_workflow() -> None:
    plan = planned(diamond(), preferences=(ZONE,))
    assert changed(plan)[f"spec.affinity.nodeAffinity.{PREFERRED}"] == [ZONE.term()]
    shape = next(node.pod.shape for node in read_graph(open_object(plan.result)).nodes if node.pod)
    assert shape.node_affinity.preferred[0].weight == 50


def test_what_an_affinity_requires_stays_and_one_that_prefers_is_left() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    plan = planned(diamond(affinity={"nodeAffinity": required}), preferences=(ZONE,))
    assert plan.result["spec"]["affinity"]["nodeAffinity"] == {**required, PREFERRED: [ZONE.term()]}  # type: ignore[index]
    other = {PREFERRED: [{"weight": 1, "preference": {}}]}
    plan = planned(diamond(affinity={"nodeAffinity": other}), preferences=(ZONE,))
    assert "affinity" in "".join(kept(plan))
    assert not any("affinity" in path for path in changed(plan))


def test_templates_with_an_affinity_of_their_own_are_told() -> None:
    raw = workflow(dag("all", task("a"), affinity={}), container("leaf"))
    plan = planned(raw, preferences=(ZONE,))
    assert "before the workflow's" in kept(plan)["spec.templates[0].affinity"]


def test_pods_carry_the_origin_but_not_those_of_borrowed_templates() -> None:
    path = f'spec.podMetadata.annotations["{ORIGIN}"]'
    assert changed(planned(diamond()))[path] == "name/wf"
    assert path not in changed(planned(template(container("leaf"))))
    cron = workflow(kind="CronWorkflow", schedules=["* * * * *"], workflowSpec=diamond()["spec"])
    plan = changed(planned(cron))
    assert plan[f'spec.workflowSpec.podMetadata.annotations["{ORIGIN}"]'] == "cron/wf"
    assert plan["spec.workflowSpec.schedulerName"] == "stowplan"


# ── restrictions, references, faults ──


@pytest.mark.parametrize("referencing", [Referencing.STRICT, Referencing.SECURE])
def test_under_strict_referencing_a_workflow_gets_only_what_is_allowed(referencing: Referencing) -> None:
    library = template(container("main"), entrypoint="main")
    raw = workflow(workflowTemplateRef={"name": "lib"})
    options: Json = {
        "referencing": referencing,
        "mode": Mode.GATE,
        "scheduler_name": "x",
        "preferences": (ZONE,),
    }
    plan = planned(raw, library, **options)
    assert plan.operations == ()
    assert "plan lib instead" in said(plan)
    allowed = planned(raw, library, **options, allowed_fields=frozenset({"schedulerName", "podSpecPatch"}))
    assert changed(allowed).keys() == {"spec.schedulerName", "spec.podSpecPatch"}
    embedded = planned(diamond(), **options)
    assert embedded.operations == ()
    assert "runs no workflow of this kind" in said(embedded)
    assert planned(library, **options).operations


def test_references_that_are_not_given_are_told_and_the_rest_is_planned() -> None:
    call = {"name": "a", "templateRef": {"name": "lib", "template": "leaf"}}
    raw = workflow(dag("all", call, task("b", "leaf", depends="a")), container("leaf"))
    plan = planned(raw)
    assert "spec.templates[0].dag.tasks[0].templateRef.name is 'lib': it is not given" in said(plan)
    assert "spec.schedulerName" in changed(plan)
    assert requests(raw)
    assert not any(RANK in path for path in changed(plan))
    known = planned(raw, template(container("leaf")))
    assert changed(known)[f'spec.templates[1].metadata.annotations["{RANK}"]'] == "60.0"


def test_faults_beside_a_reference_that_is_not_given_are_still_refused() -> None:
    call = {"name": "a", "templateRef": {"name": "lib", "template": "leaf"}}
    with pytest.raises(MalformedWorkflow) as caught:
        plan_object(workflow(dag("all", call, task("b", "nobody"))))
    assert [problem.path for problem in caught.value.problems] == ["spec.templates[0].dag.tasks[1].template"]


def test_a_malformed_workflow_is_refused_with_the_path() -> None:
    with pytest.raises(MalformedWorkflow, match=r"spec.templates\[0\].name is False"):
        plan_object(workflow({"name": False, "container": {"image": "x"}}, entrypoint="main"))


def test_a_workflow_that_has_begun_and_one_that_only_runs_on_failure_are_told() -> None:
    begun = diamond()
    begun["status"] = {"phase": "Running"}
    assert "pods that exist stay" in said(planned(begun))
    never = workflow(dag("all", task("a", when="1 == 2")), container("leaf"))
    assert "there are no ranks" in said(planned(never))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PlanOptions(scheduler_name="No!"), "scheduler name 'No!'"),
        (lambda: PlanOptions(priority_classes=("A",)), "priority class 'A'"),
        (lambda: PlanOptions(priority_classes=("a", "a")), "named twice"),
        (lambda: Preference("a b", ("x",)), "no label"),
        (lambda: Preference("/zone", ("x",)), "no label"),
        (lambda: Preference("zone", ("x y",)), "no value of the label"),
        (lambda: Preference("zone", ()), "at least one"),
        (lambda: Preference("zone", ("x",), 0), "within 1 and 100"),
        (lambda: Requests(0, 1), "cpu_milli is 0"),
    ],
)
def test_options_that_cannot_be_used(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()
