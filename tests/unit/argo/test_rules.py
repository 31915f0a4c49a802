"""Malformed workflows: each fault is told with its path, its value and the mend, and all of them at once."""

import copy
import pickle

import pytest

from stowplan.errors import InvalidObject, InvalidWorkflow
from stowplan.kube.argo import MalformedWorkflow, ReadLimits, Shelf, check_object, open_object, read_graph
from tests.unit.argo.cases import CONTAINER, Json, container, dag, inputs, parameters, steps, task, workflow

LEAF = container("leaf")


def faults(raw: Json) -> dict[str, str]:
    """The mend of each fault by path."""
    with pytest.raises(MalformedWorkflow) as caught:
        read_graph(open_object(raw), Shelf())
    return {problem.path: problem.mend for problem in caught.value.problems}


def one(template: Json) -> Json:
    """A workflow of one template, which is not the entry point."""
    return workflow(LEAF, template, entrypoint="leaf")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"metadata": {"name": True}}, "metadata.name"),
        ({"metadata": ["x"]}, "metadata"),
        ({"metadata": {"name": "x", "labels": {"a": 1}}}, "metadata.labels.a"),
        ({"metadata": {"name": "x", "annotations": "no"}}, "metadata.annotations"),
        ({"spec": []}, "spec"),
        ({"spec": {"entrypoint": False}}, "spec.entrypoint"),
        ({"spec": {"templates": {}}}, "spec.templates"),
        ({"spec": {"templates": [None]}}, "spec.templates[0]"),
        ({"spec": {"templates": [{"name": True}]}}, "spec.templates[0].name"),
        ({"spec": {"templates": [{"name": 3}]}}, "spec.templates[0].name"),
        ({"spec": {"templates": [{"container": {"args": [1]}}]}}, "spec.templates[0].container.args[0]"),
        (
            {"spec": {"templates": [{"container": {"resources": {"requests": {"cpu": "lots"}}}}]}},
            "spec.templates[0].container.resources.requests.cpu",
        ),
        (
            {"spec": {"templates": [{"container": {"resources": {"limits": {"memory": True}}}}]}},
            "spec.templates[0].container.resources.limits.memory",
        ),
        ({"spec": {"templates": [{"steps": [{"name": "a"}]}]}}, "spec.templates[0].steps[0]"),
        (
            {"spec": {"templates": [{"dag": {"tasks": [{"depends": ["a"]}]}}]}},
            "spec.templates[0].dag.tasks[0].depends",
        ),
        (
            {"spec": {"templates": [{"dag": {"tasks": [{"dependencies": "a"}]}}]}},
            "spec.templates[0].dag.tasks[0].dependencies",
        ),
        (
            {"spec": {"templates": [{"dag": {"tasks": [{"withItems": {"a": 1}}]}}]}},
            "spec.templates[0].dag.tasks[0].withItems",
        ),
        (
            {"spec": {"templates": [{"dag": {"tasks": [{"inline": {"daemon": "yes"}}]}}]}},
            "spec.templates[0].dag.tasks[0].inline.daemon",
        ),
        (
            {"spec": {"arguments": {"parameters": [{"name": "a", "value": [1]}]}}},
            "spec.arguments.parameters[0].value",
        ),
        ({"spec": {"nodeSelector": {"a": True}}}, "spec.nodeSelector.a"),
        ({"spec": {1: 2}}, "spec"),
        ({"spec": {"parallelism": "2"}}, "spec.parallelism"),
        ({"spec": None}, "spec"),
    ],
)
def test_types_are_those_that_the_controller_decodes(change: Json, path: str) -> None:
    with pytest.raises(MalformedWorkflow) as caught:
        open_object({**workflow(LEAF), **change})
    assert path in {problem.path for problem in caught.value.problems}


def test_unknown_fields_and_nulls_are_left_alone_and_the_object_is_not_touched() -> None:
    raw = workflow(
        {**container("leaf", nodeSelector=None), "fromTheFuture": {"x": [1]}}, alsoNew=True, affinity=None
    )
    before = copy.deepcopy(raw)
    opened = open_object(raw)
    read_graph(opened)
    assert raw == before
    assert opened.raw is raw


@pytest.mark.parametrize(
    ("raw", "path", "mend"),
    [
        (workflow(LEAF, entrypoint=None) | {}, "spec.entrypoint", "name the template"),
        (workflow(LEAF, entrypoint="other"), "spec.entrypoint", "there is no template"),
        (workflow(LEAF, LEAF), "spec.templates[1].name", "unique"),
        (workflow(container("bad_name")), "spec.templates[0].name", "letters, digits"),
        (workflow(container("x" * 129)), "spec.templates[0].name", "at most 128"),
        (workflow({"container": CONTAINER}, entrypoint="a"), "spec.templates[0].name", "write a name"),
        (workflow(LEAF, name="n" * 64), "metadata.name", "63"),
        (one({"name": "t"}), "spec.templates[1]", "one type"),
        (one({"name": "t", **LEAF, "suspend": {}} | {"name": "t"}), "spec.templates[1]", "one type"),
        (one(dag("t")), "spec.templates[1].dag.tasks", "at least one"),
        (one(dag("t", task("a"), task("a"))), "spec.templates[1].dag.tasks[1].name", "unique"),
        (one(dag("t", task("a", "gone"))), "spec.templates[1].dag.tasks[0].template", "there is no template"),
        (one(dag("t", {"name": "a"})), "spec.templates[1].dag.tasks[0]", "name its template"),
        (one(dag("t", task("a", depends="a"))), "spec.templates[1].dag.tasks[0].depends", "itself"),
        (
            one(dag("t", task("a", dependencies=["a"]))),
            "spec.templates[1].dag.tasks[0].dependencies",
            "itself",
        ),
        (one(dag("t", task("a", depends="b"))), "spec.templates[1].dag.tasks[0].depends", "no task 'b'"),
        (
            one(dag("t", task("a", depends="b &&"), task("b"))),
            "spec.templates[1].dag.tasks[0].depends",
            "ends early",
        ),
        (
            one(dag("t", task("a", depends="b.Done"), task("b"))),
            "spec.templates[1].dag.tasks[0].depends",
            "Succeeded",
        ),
        (
            one(dag("t", task("a", depends="b.AnySucceeded"), task("b"))),
            "spec.templates[1].dag.tasks[0].depends",
            "no items",
        ),
        (
            one(dag("t", task("a"), task("b", depends="a"), task("c", dependencies=["a"]))),
            "spec.templates[1].dag.tasks[2].dependencies",
            "either depends or dependencies",
        ),
        (
            one(dag("t", task("a", continueOn={"failed": True}), task("b", depends="a"))),
            "spec.templates[1].dag.tasks[0].continueOn",
            "a.Failed",
        ),
        (one(dag("t", task("1a", depends="b"), task("b"))), "spec.templates[1].dag.tasks[0].name", "letter"),
        (
            one(dag("t", task("a", depends="c"), task("b", depends="a"), task("c", depends="b"))),
            "spec.templates[1].dag.tasks",
            "wait for each other",
        ),
        (
            one({**dag("t", task("a")), "dag": {"tasks": [task("a")], "target": "z"}}),
            "spec.templates[1].dag.target",
            "'z'",
        ),
        (
            one(dag("t", task("a"), task("b", "need", arguments=parameters(m="{{tasks.a.outputs.result}}"))))
            | {},
            "spec.templates[1].dag.tasks[1].arguments.parameters[0].value",
            "does not wait for 'a'",
        ),
        (one(steps("t", [task("a")], [task("a")])), "spec.templates[1].steps[1][0].name", "unique"),
        (one(steps("t", [{"template": "leaf"}])), "spec.templates[1].steps[0][0].name", "write a name"),
        (
            one(steps("t", [task("a", withItems=[1], withParam="[]")])),
            "spec.templates[1].steps[0][0].withParam",
            "keep one",
        ),
        (
            one(steps("t", [task("a", withSequence={"count": "1", "end": "2"})])),
            "spec.templates[1].steps[0][0].withSequence.end",
            "either count or end",
        ),
        (
            one(steps("t", [task("a", templateRef={"name": "x", "template": "y"})])),
            "spec.templates[1].steps[0][0].template",
            "not both",
        ),
        (
            one(steps("t", [{"name": "a", "templateRef": {"name": "x", "template": "y"}}])),
            "spec.templates[1].steps[0][0].templateRef.name",
            "no WorkflowTemplate",
        ),
        (
            one(steps("t", [{"name": "a", "templateRef": {"name": "", "template": "y"}}])),
            "spec.templates[1].steps[0][0].templateRef.name",
            "name the object",
        ),
        (
            one(steps("t", [task("a", hooks={"h": {"template": "leaf"}})])),
            "spec.templates[1].steps[0][0].hooks.h.expression",
            "when the hook",
        ),
        (
            workflow(steps("main", [task("a", "need")]), container("need", inputs=inputs("m"))),
            "spec.templates[0].steps[0][0].arguments.parameters",
            "needs the input 'm'",
        ),
        (workflow(container("need", inputs=inputs("m"))), "spec.arguments.parameters", "needs the input 'm'"),
        (
            workflow(LEAF, arguments={"parameters": [{"name": "a"}]}),
            "spec.arguments.parameters[0].value",
            "write a value",
        ),
        (
            workflow(LEAF, arguments=parameters(a=1) | {"artifacts": [{"name": "x y"}]}),
            "spec.arguments.artifacts[0].name",
            "letters",
        ),
        (workflow(LEAF, onExit="gone"), "spec.onExit", "there is no template"),
        (workflow(LEAF, podGC={"strategy": "Always"}), "spec.podGC.strategy", "OnPodCompletion"),
        (workflow(LEAF, retryStrategy={"retryPolicy": "Never"}), "spec.retryStrategy.retryPolicy", "Always"),
        (
            workflow(LEAF, workflowTemplateRef={"name": "x"}),
            "spec.workflowTemplateRef.name",
            "no WorkflowTemplate",
        ),
        (one(container("t", parallelism=2)), "spec.templates[1].parallelism", "only steps and dag"),
        (
            one(dag("t", task("a"), activeDeadlineSeconds=1)),
            "spec.templates[1].activeDeadlineSeconds",
            "only a template with a pod",
        ),
        (one(dag("t", task("a"), timeout="3s")), "spec.templates[1].timeout", "remove it"),
        (one(container("t", timeout="30")), "spec.templates[1].timeout", "unit"),
        (
            one(container("t", activeDeadlineSeconds="soon")),
            "spec.templates[1].activeDeadlineSeconds",
            "whole number",
        ),
        (one({"name": "t", "container": {}}), "spec.templates[1].container.image", "name the image"),
        (
            one(container("t", initContainers=[{"image": "i"}])),
            "spec.templates[1].initContainers[0].name",
            "write a name",
        ),
        (
            one(
                {
                    "name": "t",
                    "container": {**CONTAINER, "volumeMounts": [{"mountPath": "/a"}, {"mountPath": "/a"}]},
                }
            ),
            "spec.templates[1].container.volumeMounts[1].mountPath",
            "another path",
        ),
        (
            one({"name": "t", "resource": {"action": "make", "manifest": "a"}}),
            "spec.templates[1].resource.action",
            "get, create",
        ),
        (
            one({"name": "t", "resource": {"action": "create"}}),
            "spec.templates[1].resource.manifest",
            "manifestFrom",
        ),
        (one({"name": "t", "plugin": {"a": {}, "b": {}}}), "spec.templates[1].plugin", "one key"),
        (
            one({"name": "t", "containerSet": {"containers": []}}),
            "spec.templates[1].containerSet.containers",
            "at least one",
        ),
        (
            one(
                {
                    "name": "t",
                    "containerSet": {"containers": [{"name": "a", "image": "i", "dependencies": ["a"]}]},
                }
            ),
            "spec.templates[1].containerSet.containers",
            "wait for each other",
        ),
        (
            one(
                {
                    "name": "t",
                    "containerSet": {"containers": [{"name": "a", "image": "i", "dependencies": ["b"]}]},
                }
            ),
            "spec.templates[1].containerSet.containers[0].dependencies[0]",
            "there is no container",
        ),
        (
            one(
                {
                    "name": "t",
                    "containerSet": {"containers": [{"name": "a", "image": "i"}]},
                    "outputs": {"parameters": [{"name": "p", "valueFrom": {"path": "/p"}}]},
                }
            ),
            "spec.templates[1].containerSet.containers",
            "'main'",
        ),
        (
            one(container("t", outputs={"parameters": [{"name": "p", "valueFrom": {"parameter": "x"}}]})),
            "spec.templates[1].outputs.parameters[0].valueFrom",
            "path",
        ),
        (one(container("t", podSpecPatch="[1]")) | {}, "", ""),
        (workflow(container("t", podSpecPatch="[1]")), "spec.templates[0].podSpecPatch", "a mapping"),
        (workflow(container("t", podSpecPatch="a: [")), "spec.templates[0].podSpecPatch", "YAML or JSON"),
        (
            workflow(container("t", podSpecPatch="nodeSelector: [a]")),
            "spec.templates[0]",
            "write a mapping",
        ),
        (
            workflow(
                steps("t", [task("a", withParam="{{workflow.parameters.x}}")]),
                LEAF,
                arguments=parameters(x="no"),
            ),
            "spec.templates[0].steps[0][0].withParam",
            "JSON list",
        ),
        (
            workflow(steps("t", [task("a", "{{inputs.parameters.x}}")], inputs=inputs(x="leaf2")), LEAF),
            "spec.templates[0].steps[0][0].template",
            "cannot be decided at run time",
        ),
        (
            workflow(steps("t", [task("a", "{{workflow.uid}}")]), LEAF),
            "spec.templates[0].steps[0][0].template",
            "cannot be decided at run time",
        ),
        (workflow(steps("t")), "spec.entrypoint", "nothing is in it"),
    ],
)
def test_rules_of_the_controller(raw: Json, path: str, mend: str) -> None:
    if "need" in str(raw) and "does not wait" in mend:
        raw["spec"]["templates"].append(container("need", inputs=inputs("m")))
    if not path:  # only wrong where it is used
        read_graph(open_object(raw))
        return
    found = faults(raw)
    assert mend in found[path], found


def test_all_faults_are_told_at_once_and_travel_between_processes() -> None:
    raw = workflow(
        dag("main", task("a", depends="a"), task("b", "gone"), task("b")),
        container("bad_name"),
        LEAF,
        onExit="nobody",
    )
    with pytest.raises(MalformedWorkflow) as caught:
        check_object(open_object(raw))
    paths = [problem.path for problem in caught.value.problems]
    assert len(paths) == 5
    assert "Workflow jobs/wf: " in str(caught.value)
    assert str(caught.value).count("; also ") == 4
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  (what the test itself has made)
    assert str(again) == str(caught.value)
    assert again.problems == caught.value.problems


def test_hundreds_of_faults_do_not_fill_the_screen() -> None:
    raw = workflow(dag("main", *(task(f"t{number}", "gone") for number in range(500))))
    with pytest.raises(MalformedWorkflow, match="and 450 problems more") as caught:
        check_object(open_object(raw))
    assert len(caught.value.problems) == 500


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "Pod", "apiVersion": "v1"},
        {"kind": "Workflow", "apiVersion": "v1"},
        {"apiVersion": "argoproj.io/v1alpha1"},
        {"kind": ["Workflow"], "apiVersion": "argoproj.io/v1alpha1"},
        {},
    ],
)
def test_other_objects_are_not_taken(raw: Json) -> None:
    with pytest.raises(InvalidObject, match="is not one of"):
        open_object(raw)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"schedules": []}, "spec.schedules"),
        ({"schedules": ["every day"]}, "spec.schedules[0]"),
        ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"schedules": "0 * * * *"}, "spec.schedules"),
        ({"workflowSpec": {"templates": [{"name": True}]}}, "spec.workflowSpec.templates[0].name"),
        ({"workflowSpec": {"entrypoint": "x", "templates": [LEAF]}}, "spec.workflowSpec.entrypoint"),
        ({"workflowSpec": None}, "spec.workflowSpec"),
    ],
)
def test_cron_workflows_have_rules_of_their_own(spec: Json, path: str) -> None:
    raw = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "c"},
        "spec": {"schedules": ["TZ=UTC 0 3 * * *", "@daily"], "workflowSpec": workflow(LEAF)["spec"], **spec},
    }
    with pytest.raises(MalformedWorkflow) as caught:
        check_object(open_object(raw))
    assert path in {problem.path for problem in caught.value.problems}


def test_a_template_may_leave_open_what_its_user_says() -> None:
    raw = workflow(
        container("t", inputs=inputs("m")),
        kind="WorkflowTemplate",
        arguments={"parameters": [{"name": "open"}]},
    )
    check_object(open_object(raw))
    with pytest.raises(InvalidWorkflow, match="nothing runs by itself"):
        read_graph(open_object(raw))


def test_faults_of_a_referred_template_are_told_where_they_are() -> None:
    library = workflow(
        dag("t", task("a", depends="a"), task("b", "leaf")), LEAF, kind="WorkflowTemplate", name="lib"
    )
    raw = workflow(steps("main", [{"name": "x", "templateRef": {"name": "lib", "template": "t"}}]))
    with pytest.raises(MalformedWorkflow) as caught:
        check_object(open_object(raw), Shelf([open_object(library)]))
    assert [problem.path for problem in caught.value.problems] == [
        "WorkflowTemplate jobs/lib: spec.templates[0].dag.tasks[0].depends"
    ]


def test_templates_that_multiply_without_end_are_refused_in_time() -> None:
    levels = [
        dag(f"l{number}", task("a", f"l{number + 1}"), task("b", f"l{number + 1}")) for number in range(60)
    ]
    raw = workflow(*levels, container("l60"))
    with pytest.raises(MalformedWorkflow, match="more than 1000 tasks"):
        read_graph(open_object(raw), limits=ReadLimits(max_nodes=1000))


def test_templates_nested_beyond_the_controller_s_limit_are_refused() -> None:
    levels = [dag(f"l{number}", task("a", f"l{number + 1}")) for number in range(120)]
    with pytest.raises(MalformedWorkflow, match="deeper than 100"):
        read_graph(open_object(workflow(*levels, container("l120"))))


def test_inline_templates_nested_without_end_are_refused() -> None:
    inline: Json = {"container": CONTAINER}
    for _ in range(2000):
        inline = {"steps": [[{"name": "a", "inline": inline}]]}
    with pytest.raises(MalformedWorkflow, match="nested too deep"):
        read_graph(open_object(workflow({"name": "main", **inline})))
