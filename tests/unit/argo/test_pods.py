"""The pod that the controller would make, and what of it is only known at run time."""

import pytest

from stowplan.core.domain import PodShape, TaintEffect
from stowplan.kube.argo import ControllerSettings, MalformedWorkflow, PodPlan, TaskGraph
from tests.unit.argo.cases import container, dag, graph_of, inputs, parameters, steps, task, workflow


def plan_at(graph: TaskGraph, place: str) -> PodPlan:
    node = graph.at(place)
    assert node is not None
    assert node.pod is not None
    return node.pod


def only(raw: dict, settings: ControllerSettings | None = None) -> PodPlan:
    return plan_at(graph_of(raw, settings=settings), "")


def selector(shape: PodShape) -> dict[str, str]:
    return {item.key: item.values[0] for item in shape.node_selector}


def requests(cpu: str, **more: str) -> dict:
    return {"image": "i", "resources": {"requests": {"cpu": cpu, **more}}}


def test_requests_add_up_over_all_containers() -> None:
    raw = workflow(
        {
            "name": "main",
            "container": requests("1", memory="1Gi"),
            "sidecars": [
                {"name": "s", **requests("500m")},
                {"name": "t", "resources": {"limits": {"cpu": "250m"}}},
            ],
            "initContainers": [{"name": "i", **requests("4")}],
        }
    )
    plan = only(raw)
    assert plan.containers == ("init", "i", "wait", "main", "s", "t")
    assert plan.shape.requests["cpu"] == 4000  # the init container asks for more than the rest together
    raw["spec"]["templates"][0]["initContainers"] = []
    assert only(raw).shape.requests["cpu"] == 1750
    settings = ControllerSettings(executor_resources={"requests": {"cpu": "100m"}})
    assert only(raw, settings=settings).shape.requests["cpu"] == 1850


def test_controller_defaults_lie_under_main_containers() -> None:
    settings = ControllerSettings(
        main_container={"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}},
        workflow_defaults={"nodeSelector": {"pool": "jobs"}, "schedulerName": "other"},
        instance_id="two",
    )
    shape = only(workflow({"name": "main", "container": requests("1")}), settings=settings).shape
    assert (shape.requests["cpu"], shape.requests["memory"]) == (1000, 2**30)
    assert selector(shape) == {"pool": "jobs"}
    assert shape.scheduler_name == "other"
    assert ("workflows.argoproj.io/controller-instanceid", "two") in shape.labels


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ({"script": {"image": "i", "source": "x"}}, ("init", "wait", "main")),
        ({"resource": {"action": "get", "manifest": "a: b"}}, ("init", "main")),
        (
            {"resource": {"action": "get", "manifest": "a: b"}, "archiveLocation": {"archiveLogs": True}},
            ("init", "wait", "main"),
        ),
        ({"data": {"source": {}, "transformation": []}}, ("init", "main")),
        (
            {
                "container": {"image": "i"},
                "inputs": {"artifacts": [{"name": "a", "path": "/a", "plugin": {"name": "p"}}]},
                "outputs": {"artifacts": [{"name": "b", "path": "/b", "plugin": {"name": "q"}}]},
            },
            ("init", "artifact-plugin-init-p", "wait", "main", "artifact-plugin-q"),
        ),
    ],
)
def test_argo_adds_its_own_containers(template: dict, names: tuple[str, ...]) -> None:
    settings = ControllerSettings(executor_resources={"requests": {"cpu": "10m"}})
    plan = only(workflow({"name": "main", **template}), settings=settings)
    assert plan.containers == names
    running = [name for name in names if "init" not in name]
    assert plan.shape.requests["cpu"] == 10 * len([name for name in running if name != "main"]) + (
        10 if "resource" in template or "data" in template else 0
    )


def test_the_nearest_constraint_is_taken_whole() -> None:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
    raw = workflow(
        dag(
            "main",
            task("own", "own"),
            task("none", "none"),
            task("deep", "inner"),
            nodeSelector={"from": "dag", "x": "1"},
            tolerations=[toleration],
        ),
        container("own", nodeSelector={"from": "template"}, schedulerName="s", priorityClassName="high"),
        container("none"),
        steps("inner", [task("a", "none")]),
        nodeSelector={"from": "workflow"},
        schedulerName="w",
        podPriorityClassName="low",
    )
    graph = graph_of(raw)
    own, none, deep = (plan_at(graph, place) for place in (".own", ".none", ".deep[0].a"))
    assert selector(own.shape) == {"from": "template"}
    assert selector(none.shape) == {"from": "dag", "x": "1"}
    assert selector(deep.shape) == {"from": "workflow"}  # only the innermost dag or steps counts
    assert own.shape.tolerations == none.shape.tolerations
    assert own.shape.tolerations[0].effect is TaintEffect.NO_SCHEDULE
    assert deep.shape.tolerations == ()
    assert [(plan.shape.scheduler_name, plan.priority_class) for plan in (own, none, deep)] == [
        ("s", "high"),
        ("w", "low"),
        ("w", "low"),
    ]


def test_a_dag_asks_its_pods_with_their_own_inputs() -> None:
    raw = workflow(
        dag(
            "main",
            task("a", "leaf", arguments=parameters(n="x")),
            nodeSelector={"h": "{{inputs.parameters.n}}"},
        ),
        container("leaf", inputs=inputs("n")),
    )
    assert selector(plan_at(graph_of(raw), ".a").shape) == {"h": "x"}


def test_labels_come_from_the_template_over_the_workflow() -> None:
    raw = workflow(
        {"name": "main", "container": {"image": "i"}, "metadata": {"labels": {"a": "template"}}},
        podMetadata={"labels": {"a": "workflow", "b": "workflow"}},
    )
    labels = dict(only(raw).shape.labels)
    # What a template's object says of its pods is put over the template when it is looked up.
    assert labels == {
        "a": "workflow",
        "b": "workflow",
        "workflows.argoproj.io/completed": "false",
        "workflows.argoproj.io/workflow": "wf",
    }


def test_patches_are_applied_the_workflow_s_first() -> None:
    raw = workflow(
        container(
            "main",
            inputs=inputs(mem="2Gi"),
            podSpecPatch='{"schedulerName":"t","containers":[{"name":"main","resources":{"requests":'
            '{"memory":"{{inputs.parameters.mem}}"}}}]}',
        ),
        podSpecPatch="schedulerName: w\nnodeSelector:\n  zone: east\n",
    )
    shape = only(raw).shape
    assert (shape.scheduler_name, shape.requests["memory"]) == ("t", 2 * 2**30)
    assert selector(shape) == {"zone": "east"}


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: [", "YAML or JSON"),
        ("- a", "a mapping"),
        ("[" * 5000, "YAML or JSON"),
    ],
)
def test_patches_that_cannot_be_applied_are_faults(patch: str, reason: str) -> None:
    with pytest.raises(MalformedWorkflow, match=reason):
        only(workflow(container("main", podSpecPatch=patch)))


def test_the_first_attempt_is_what_is_planned() -> None:
    template = container(
        "main",
        retryStrategy={"limit": 2},
        podSpecPatch='{"containers":[{"name":"main","resources":{"requests":{"memory":"1{{retries}}Gi"}}}]}',
    )
    assert only(workflow(template)).shape.requests["memory"] == 10 * 2**30


def test_what_is_not_known_is_left_out_and_told() -> None:
    raw = workflow(
        dag(
            "main",
            task("a"),
            task("b", "b", depends="a", arguments=parameters(n="{{tasks.a.outputs.result}}", cpu="2")),
        ),
        container("leaf"),
        {
            "name": "b",
            "inputs": inputs("n", "cpu"),
            "container": {
                "image": "app:{{inputs.parameters.n}}",
                "args": ["{{inputs.parameters.n}}"],
                "resources": {
                    "requests": {"cpu": "{{inputs.parameters.cpu}}", "memory": "{{inputs.parameters.n}}Gi"}
                },
            },
            "nodeSelector": {"host": "{{inputs.parameters.n}}", "kind": "c{{inputs.parameters.cpu}}"},
            "tolerations": [{"key": "a"}, {"key": "{{inputs.parameters.n}}"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "k", "operator": "In", "values": ["{{inputs.parameters.n}}"]}
                                ]
                            }
                        ]
                    }
                }
            },
            "podSpecPatch": "{{inputs.parameters.n}}",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "{{inputs.parameters.n}}"}}],
        },
    )
    plan = plan_at(graph_of(raw), ".b")
    assert selector(plan.shape) == {"kind": "c2"}
    assert dict(plan.shape.requests) == {"cpu": 2000}
    assert [item.key for item in plan.shape.tolerations] == ["a"]
    assert plan.shape.node_affinity.required is None
    assert {field.path for field in plan.unknown} == {
        "podSpecPatch",
        "spec.containers[1].image",
        "spec.containers[1].resources.requests.memory",
        "spec.nodeSelector.host",
        "spec.tolerations[1]",
        "spec.affinity.nodeAffinity",
        "spec.volumes[0]",
    }
    assert {field.variables for field in plan.unknown} == {("tasks.a.outputs.result",)}


def test_claims_and_volumes_that_are_mounted_go_with_the_pod() -> None:
    raw = workflow(
        {
            "name": "main",
            "container": {"image": "i", "volumeMounts": [{"name": "work", "mountPath": "/w"}]},
            "sidecars": [
                {"name": "s", "image": "i", "volumeMounts": [{"name": "shared", "mountPath": "/s"}]}
            ],
        },
        volumeClaimTemplates=[{"metadata": {"name": "work"}}, {"metadata": {"name": "unused"}}],
        volumes=[
            {"name": "shared", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "other", "persistentVolumeClaim": {"claimName": "no"}},
        ],
    )
    assert [volume.claim for volume in only(raw).shape.volumes] == ["data", "wf-work"]
    del raw["metadata"]["name"]
    assert [field.path for field in only(raw).unknown] == ["spec.volumes[1]"]


def test_pod_level_resources_and_claims_are_passed_on() -> None:
    raw = workflow(
        container("main", podResources={"requests": {"cpu": "3"}}),
        resourceClaims=[{"name": "gpu"}],
        hostNetwork=True,
    )
    shape = only(raw).shape
    assert (shape.requests["cpu"], shape.resource_claims, shape.host_network) == (3000, ("gpu",), True)


def test_pods_of_one_template_share_one_shape() -> None:
    raw = workflow(
        steps(
            "main",
            [task("a", "p", arguments=parameters(m=str(number)), withItems=[1, 2, 3]) for number in [1]],
        ),
        container("p", inputs=inputs("m")),
    )
    raw["spec"]["templates"][1]["container"]["args"] = ["{{inputs.parameters.m}}"]
    plans = {id(node.pod) for node in graph_of(raw).nodes}
    assert len(plans) == 1


def test_the_agent_takes_the_workflow_s_constraints() -> None:
    raw = workflow(
        {"name": "main", "http": {"url": "http://x"}, "nodeSelector": {"not": "this"}},
        nodeSelector={"zone": "{{workflow.parameters.z}}"},
        podSpecPatch="schedulerName: p",
        arguments=parameters(z="e"),
    )
    agent = graph_of(raw).agent
    assert agent is not None
    assert selector(agent.shape) == {"zone": "e"}
    assert agent.shape.scheduler_name == "p"
    assert (agent.shape.requests["cpu"], agent.shape.requests["memory"]) == (10, 64_000_000)


@pytest.mark.parametrize(("key", "text"), [("no", "false"), ("1", "1"), ("2026-11-30", "2026-11-30")])
def test_a_key_of_a_patch_that_yaml_reads_as_something_else_is_text_again(key: str, text: str) -> None:
    raw = workflow(container("main", podSpecPatch=f"nodeSelector:\n  {key}: there\n"))
    assert selector(only(raw).shape) == {text: "there"}
