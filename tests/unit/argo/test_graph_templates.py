"""Task graphs: templates of all kinds, and where they are looked up."""

from stowplan.kube.argo import NodeKind
from tests.unit.argo.cases import (
    container,
    dag,
    graph_of,
    inputs,
    parameters,
    steps,
    task,
    workflow,
)

LEAF = container("leaf")


def test_kinds_of_nodes() -> None:
    raw = workflow(
        dag(
            "main",
            task("wait", "pause"),
            task("get", "call", depends="wait"),
            task("plug", "plugged"),
            task("make", "object"),
            task("list", "listing"),
            task("set", "both"),
        ),
        {"name": "pause", "suspend": {}},
        {"name": "call", "http": {"url": "http://x"}},
        {"name": "plugged", "plugin": {"hello": {}}},
        {"name": "object", "resource": {"action": "get", "manifest": "x: 1"}},
        {"name": "listing", "data": {"source": {}, "transformation": []}},
        {
            "name": "both",
            "containerSet": {
                "containers": [
                    {"name": "a", "image": "i"},
                    {"name": "main", "image": "i", "dependencies": ["a"]},
                ]
            },
        },
    )
    graph = graph_of(raw)
    assert {node.place: node.kind.value for node in graph.nodes} == {
        ".wait": "suspend",
        ".get": "agent",
        ".plug": "agent",
        ".make": "pod",
        ".list": "pod",
        ".set": "pod",
    }
    assert graph.agent is not None
    assert graph.agent.containers == ("init", "main")
    assert graph.pod_count() == 4
    plan = graph.at(".set")
    assert plan is not None
    assert plan.pod is not None
    assert plan.pod.inner_order == (("a", "main"),)
    assert plan.pod.containers == ("init", "wait", "a", "main")


def test_inline_templates_see_the_variables_around_them() -> None:
    inline = {"inputs": inputs("own"), **container("ignored")}
    inline["container"]["env"] = []
    inline["nodeSelector"] = {"zone": "{{inputs.parameters.outer}}-{{inputs.parameters.own}}-{{item}}"}
    raw = workflow(
        dag(
            "main",
            {"name": "a", "inline": inline, "arguments": parameters(own="o"), "withItems": ["i"]},
            inputs=inputs(outer="x"),
        )
    )
    node = graph_of(raw).nodes[0]
    assert node.pod is not None
    assert node.pod.shape.node_selector[0].values == ("x-o-i",)
    assert node.template == ".a#0"


def test_templates_of_other_objects_look_names_up_among_their_own() -> None:
    library = workflow(
        steps("outer", [task("s", "leaf")]),
        container("leaf", nodeSelector={"from": "library"}),
        kind="WorkflowTemplate",
        name="lib",
    )
    raw = workflow(
        dag("main", {"name": "a", "templateRef": {"name": "lib", "template": "outer"}}),
        container("leaf", nodeSelector={"from": "own"}),
    )
    node = graph_of(raw, library).nodes[0]
    assert node.template == "lib/leaf"
    assert node.pod is not None
    assert node.pod.shape.node_selector[0].values == ("library",)


def test_cluster_templates_are_not_those_of_the_namespace() -> None:
    own = workflow(container("t", nodeSelector={"k": "namespace"}), kind="WorkflowTemplate", name="lib")
    wide = workflow(container("t", nodeSelector={"k": "cluster"}), kind="ClusterWorkflowTemplate", name="lib")
    raw = workflow(
        steps(
            "main",
            [
                {"name": "a", "templateRef": {"name": "lib", "template": "t"}},
                {"name": "b", "templateRef": {"name": "lib", "template": "t", "clusterScope": True}},
            ],
        )
    )
    graph = graph_of(raw, own, wide)
    found = [node.pod.shape.node_selector[0].values for node in graph.nodes if node.pod is not None]
    assert found == [("namespace",), ("cluster",)]


def test_a_template_chosen_at_run_time_is_told_as_such() -> None:
    raw = workflow(
        dag(
            "main",
            task("a"),
            {
                "name": "b",
                "depends": "a",
                "templateRef": {"name": "lib", "template": "{{tasks.a.outputs.result}}"},
            },
        ),
        LEAF,
    )
    node = graph_of(raw).nodes[-1]
    assert (node.kind, node.note) == (NodeKind.AT_RUN_TIME, "tasks.a.outputs.result")


def test_a_template_chosen_by_an_argument_is_followed() -> None:
    library = workflow(LEAF, kind="WorkflowTemplate", name="lib")
    raw = workflow(
        dag("main", {"name": "b", "templateRef": {"name": "{{workflow.parameters.l}}", "template": "leaf"}}),
        arguments=parameters(l="lib"),
    )
    assert graph_of(raw, library).nodes[0].template == "lib/leaf"


def test_a_workflow_overrides_the_template_that_it_refers_to() -> None:
    library = workflow(
        dag("main", task("a", "say", arguments=parameters(m="{{workflow.parameters.x}}"))),
        steps("other", [task("b", "say", arguments=parameters(m="{{workflow.parameters.y}}"))]),
        container("say", inputs=inputs("m")),
        kind="WorkflowTemplate",
        name="lib",
        entrypoint="main",
        arguments=parameters(x="old", y="kept"),
        nodeSelector={"a": "1", "b": "2"},
        parallelism=3,
    )
    raw = workflow(
        workflowTemplateRef={"name": "lib"},
        arguments=parameters(x="new"),
        nodeSelector={"a": "9"},
    )
    graph = graph_of(raw, library)
    assert [(node.place, node.inputs) for node in graph.nodes] == [(".a", (("m", "new"),))]
    assert graph.parallelism == 3
    assert graph.origin == "template/lib"
    assert graph.nodes[0].pod is not None
    assert [(item.key, item.values[0]) for item in graph.nodes[0].pod.shape.node_selector] == [
        ("a", "9"),
        ("b", "2"),
    ]
    raw["spec"]["entrypoint"] = "other"
    assert [(node.place, node.inputs) for node in graph_of(raw, library).nodes] == [
        ("[0].b", (("m", "kept"),))
    ]
