"""Task graphs: what waits for what, and what is certain to run."""

import pytest

from stowplan.kube.argo import Chance, Hook, NodeKind, ReadLimits, Result
from tests.unit.argo.cases import (
    container,
    dag,
    edges,
    graph_of,
    inputs,
    parameters,
    places,
    steps,
    task,
    workflow,
)

LEAF = container("leaf")


def chances(raw: dict, *others: dict) -> dict[str, Chance]:
    return {node.place: node.chance for node in graph_of(raw, *others).nodes if node.kind != NodeKind.JOIN}


def test_one_container_is_a_graph_of_one_node() -> None:
    graph = graph_of(workflow(LEAF))
    assert places(graph) == [""]
    assert graph.nodes[0].kind is NodeKind.POD
    assert graph.nodes[0].template == "leaf"
    assert graph.pod_count() == 1


def test_a_dag_waits_for_all_that_depends_names() -> None:
    raw = workflow(
        dag("main", task("a"), task("b", depends="a"), task("c", depends="a || b.Failed"), task("d")), LEAF
    )
    graph = graph_of(raw)
    assert edges(graph) == {(".a", ".b"), (".a", ".c"), (".b", ".c")}
    after = [[graph.nodes[child].place for child in children] for children in graph.children]
    assert dict(zip(places(graph), after, strict=True)) == {
        ".a": [".b", ".c"],
        ".b": [".c"],
        ".c": [],
        ".d": [],
    }


def test_dependencies_and_depends_are_alike() -> None:
    listed = dag("main", task("a"), task("b"), task("c", dependencies=["a", "b"]))
    written = dag("main", task("a"), task("b"), task("c", depends="a && b"))
    assert edges(graph_of(workflow(listed, LEAF))) == edges(graph_of(workflow(written, LEAF)))


def test_groups_of_steps_follow_each_other() -> None:
    raw = workflow(steps("main", [task("a"), task("b")], [task("c"), task("d")]), LEAF)
    graph = graph_of(raw)
    assert edges(graph) == {
        (f"[0].{before}", f"[1].{after}") for before in ("a", "b") for after in ("c", "d")
    }
    assert [node.kind for node in graph.nodes].count(NodeKind.JOIN) == 1  # the second of those who wait


def test_nested_templates_are_entered_and_left_as_a_whole() -> None:
    raw = workflow(
        dag("main", task("x"), task("in", "inner", depends="x"), task("y", depends="in")),
        steps("inner", [task("p"), task("q")], [task("r")]),
        LEAF,
    )
    assert edges(graph_of(raw)) == {
        (".x", ".in[0].p"),
        (".x", ".in[0].q"),
        (".in[0].p", ".in[1].r"),
        (".in[0].q", ".in[1].r"),
        (".in[1].r", ".y"),
    }


def test_a_template_with_nothing_in_it_lets_pass() -> None:
    raw = workflow(
        dag("main", task("x"), task("nothing", "empty", depends="x"), task("y", depends="nothing")),
        steps("empty"),
        LEAF,
    )
    assert edges(graph_of(raw)) == {(".x", ".y")}


def test_only_what_the_targets_need_is_run() -> None:
    template = dag("main", task("a"), task("b", depends="a"), task("c", depends="a"), task("d", depends="c"))
    template["dag"]["target"] = "b d"
    assert places(graph_of(workflow(template, LEAF))) == [".a", ".b", ".c", ".d"]
    template["dag"]["target"] = "{{workflow.parameters.goal}}"
    graph = graph_of(workflow(template, LEAF, arguments=parameters(goal="b")))
    assert places(graph) == [".a", ".b"]
    assert graph.calls[0].unreached == ("c", "d")


def test_chances_follow_conditions_and_failures() -> None:
    raw = workflow(
        dag(
            "main",
            task("flip"),
            task("heads", depends="flip", when="{{tasks.flip.outputs.result}} == heads"),
            task("never", depends="flip", when="a == b"),
            task("after-either", depends="heads"),
            task("only-if-heads", depends="heads.Succeeded"),
            task("clean-up", depends="flip.Failed"),
            task("after-clean-up", depends="clean-up"),
            task("report", depends="flip && (clean-up.Succeeded || clean-up.Omitted)"),
            task("after-never", depends="never"),
        ),
        LEAF,
    )
    assert chances(raw) == {
        ".flip": Chance.CERTAIN,
        ".heads": Chance.CONDITIONAL,
        ".never": Chance.NEVER,
        ".after-either": Chance.CERTAIN,
        ".only-if-heads": Chance.CONDITIONAL,
        ".clean-up": Chance.ON_FAILURE,
        ".after-clean-up": Chance.ON_FAILURE,
        ".report": Chance.CERTAIN,
        ".after-never": Chance.CERTAIN,
    }


def test_what_is_within_a_conditional_call_is_conditional() -> None:
    raw = workflow(
        steps("main", [task("in", "inner", when="{{workflow.parameters.x}} == 1")]),
        dag("inner", task("a"), task("b", depends="a.Failed")),
        LEAF,
        arguments={
            "parameters": [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
        },
    )
    graph = graph_of(raw)
    assert {node.place: node.chance for node in graph.nodes} == {
        "[0].in.a": Chance.CONDITIONAL,
        "[0].in.b": Chance.ON_FAILURE,
    }
    assert graph.calls[1].when == "{{configMap.c.k}} == 1"


def test_daemons_are_waited_for_until_they_are_up() -> None:
    raw = workflow(
        dag("main", task("db", "server"), task("use", depends="db"), task("gone", depends="db.Succeeded")),
        container("server", daemon=True),
        LEAF,
    )
    graph = graph_of(raw)
    assert graph.nodes[0].daemon
    assert chances(raw)[".use"] is Chance.CERTAIN
    assert chances(raw)[".gone"] is Chance.ON_FAILURE


def test_small_fan_outs_are_expanded_with_their_items() -> None:
    raw = workflow(
        steps(
            "main",
            [
                task(
                    "p",
                    "show",
                    arguments=parameters(m="{{item.os}}"),
                    withItems=[{"os": "linux"}, {"os": "bsd"}],
                )
            ],
            [task("q", "show", arguments=parameters(m="last"))],
        ),
        container("show", inputs=inputs("m")),
    )
    graph = graph_of(raw)
    assert [(node.place, node.item, node.inputs) for node in graph.nodes] == [
        ("[0].p#0", "os:linux", (("m", "linux"),)),
        ("[0].p#1", "os:bsd", (("m", "bsd"),)),
        ("[1].q", "", (("m", "last"),)),
    ]
    assert edges(graph) == {("[0].p#0", "[1].q"), ("[0].p#1", "[1].q")}


def test_a_condition_on_the_item_is_decided_for_each() -> None:
    raw = workflow(steps("main", [task("p", when="{{item}} != b", withItems=["a", "b"])]), LEAF)
    assert chances(raw) == {"[0].p#0": Chance.CERTAIN, "[0].p#1": Chance.NEVER}


@pytest.mark.parametrize(
    ("fields", "width", "chance"),
    [
        ({"withParam": "{{steps.a.outputs.result}}"}, None, Chance.CONDITIONAL),
        ({"withSequence": {"count": "1000"}}, 1000, Chance.CERTAIN),
        ({"withSequence": {"count": "0"}}, 0, Chance.NEVER),
        ({"withSequence": {"count": "1000"}, "when": "{{item}} == 3"}, 1000, Chance.CONDITIONAL),
        ({"withParam": "[]"}, 0, Chance.NEVER),
    ],
)
def test_wide_and_unknown_fan_outs_are_counted(fields: dict, width: int | None, chance: Chance) -> None:
    graph = graph_of(workflow(steps("main", [task("a")], [task("p", **fields)]), LEAF))
    node = graph.nodes[-1]
    assert node.place == "[1].p#*"
    assert node.fanout is not None
    assert (graph.count(node), node.chance) == (width, chance)


def test_fan_outs_within_fan_outs_multiply() -> None:
    raw = workflow(
        steps("main", [task("o", "inner", withSequence={"count": "1000"})]),
        dag("inner", task("p", withSequence={"count": "500"}), task("q", depends="p")),
        LEAF,
    )
    graph = graph_of(raw)
    assert {node.place: graph.count(node) for node in graph.nodes} == {
        "[0].o#*.p#*": 500_000,
        "[0].o#*.q": 1000,
    }
    assert graph.pod_count() == 501_000


def test_expanding_takes_no_more_than_its_part_of_the_room() -> None:
    raw = workflow(
        steps("main", [task("o", "inner", withSequence={"count": "50"})]),
        dag("inner", task("p", withSequence={"count": "40"}), task("q", depends="p")),
        LEAF,
    )
    graph = graph_of(raw, limits=ReadLimits(max_nodes=400))
    assert graph.nodes[0].place == "[0].o#0.p#0"
    assert graph.nodes[-2].place == "[0].o#49.p#*"
    assert graph.pod_count() == 50 * 41


def test_the_width_of_the_outer_may_be_unknown() -> None:
    raw = workflow(
        dag("main", task("a"), task("o", "inner", depends="a", withParam="{{tasks.a.outputs.result}}")),
        dag("inner", task("p", withItems=[1, 2])),
        LEAF,
    )
    graph = graph_of(raw)
    assert graph.count(graph.nodes[1]) is None
    assert graph.pod_count() is None


def test_a_fan_out_of_a_skipped_step_need_not_make_sense() -> None:
    graph = graph_of(workflow(steps("main", [task("p", when="a == b", withParam="nonsense")]), LEAF))
    assert graph.nodes[0].chance is Chance.NEVER


def test_recursion_is_cut_where_it_begins() -> None:
    raw = workflow(
        steps("main", [task("flip")], [task("again", "main", when="{{steps.flip.outputs.result}} == tails")]),
        container("leaf"),
    )
    graph = graph_of(raw)
    node = graph.nodes[-1]
    assert (node.kind, node.place, node.template) == (NodeKind.RECURSION, "[1].again", "main")
    assert "within itself" in node.note
    assert graph.pod_count() is None


def test_recursion_through_others_is_cut_too() -> None:
    raw = workflow(
        dag("main", task("a", "b")), steps("b", [task("c", "d")]), dag("d", task("e", "b"), task("f")), LEAF
    )
    assert [(node.place, node.kind) for node in graph_of(raw).nodes] == [
        (".a[0].c.e", NodeKind.RECURSION),
        (".a[0].c.f", NodeKind.POD),
    ]


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


def test_hooks_run_beside_and_exit_handlers_after() -> None:
    raw = workflow(
        dag(
            "main",
            task("pre"),
            task(
                "a",
                depends="pre",
                hooks={
                    "exit": {"template": "leaf"},
                    "running": {"template": "leaf", "expression": 'tasks.a.status == "Running"'},
                },
            ),
            task("b", depends="a", onExit="leaf"),
        ),
        LEAF,
        onExit="leaf",
        hooks={"begin": {"template": "leaf", "expression": 'workflow.status == "Running"'}},
    )
    graph = graph_of(raw)
    assert edges(graph) == {
        (".pre", ".a"),
        (".pre", ".a.hooks.running"),
        (".a", ".a.onExit"),
        (".a.onExit", ".b"),
        (".a.hooks.running", ".b"),
        (".b", ".b.onExit"),
        (".b.onExit", ".onExit"),
        (".hooks.begin", ".onExit"),
    }
    found = {node.place: (node.hook, node.chance) for node in graph.nodes if node.hook}
    assert found[".a.onExit"] == (Hook.EXIT, Chance.CERTAIN)
    assert found[".a.hooks.running"] == (Hook.DURING, Chance.CONDITIONAL)
    assert found[".onExit"] == (Hook.EXIT, Chance.CERTAIN)
    on_exit = graph.at(".onExit")
    assert on_exit is not None
    assert on_exit.pod is not None
    assert ("workflows.argoproj.io/on-exit", "true") in on_exit.pod.shape.labels


def test_every_item_has_its_own_hook() -> None:
    raw = workflow(steps("main", [task("a", withItems=[1, 2], hooks={"exit": {"template": "leaf"}})]), LEAF)
    assert places(graph_of(raw)) == ["[0].a#0", "[0].a#0.onExit", "[0].a#1", "[0].a#1.onExit"]


def test_a_dag_runs_hooks_once_more_for_the_whole_fan_out() -> None:
    looped = task("a", withItems=[1, 2], onExit="leaf")
    graph = graph_of(workflow(dag("main", looped, task("b", depends="a")), LEAF))
    assert edges(graph) == {
        *((f".a#{item}", f".a#{item}.onExit") for item in (0, 1)),
        *((f".a#{item}.onExit", ".b") for item in (0, 1)),
        *((f".a#{item}.onExit", ".a.onExit") for item in (0, 1)),
    }
    assert (
        chances(workflow(dag("main", looped, task("b", depends="a")), LEAF))[".a.onExit"]
        == Chance.CONDITIONAL
    )
    assert chances(workflow(dag("main", looped), LEAF))[".a.onExit"] == Chance.CERTAIN
    counted = task("a", withSequence={"count": "1000"}, onExit="leaf")
    graph = graph_of(workflow(dag("main", counted), LEAF))
    assert [(node.place, graph.count(node)) for node in graph.nodes] == [
        (".a#*", 1000),
        (".a#*.onExit", 1000),
        (".a.onExit", 1),
    ]


def test_limits_locks_retries_and_memory_are_kept() -> None:
    raw = workflow(
        dag(
            "main",
            task("a", "careful", continueOn={"failed": True}),
            parallelism=2,
            failFast=True,
            memoize={"key": "k", "cache": {"configMap": {"name": "c"}}},
            retryStrategy={"limit": "2"},
            synchronization={"mutexes": [{"name": "m-{{workflow.parameters.x}}"}]},
        ),
        container(
            "careful",
            memoize={"key": "k", "cache": {"configMap": {"name": "c"}}},
            retryStrategy={
                "limit": 4,
                "retryPolicy": "Always",
                "backoff": {"duration": "1m30s", "factor": "2", "cap": "5m", "maxDuration": "1h"},
                "affinity": {"nodeAntiAffinity": {}},
            },
            synchronization={"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "db"}}]},
        ),
        arguments=parameters(x="1"),
        parallelism=7,
        synchronization={"mutexes": [{"name": "all"}]},
    )
    graph = graph_of(raw)
    call, node = graph.calls[0], graph.nodes[0]
    assert (call.parallelism, call.fail_fast, call.is_memoized, call.locks) == (2, True, True, ("mutex:m-1",))
    assert call.retry is not None
    assert (call.retry.limit, call.retry.policy) == (2, "OnFailure")
    assert node.chance is Chance.CONDITIONAL  # the dag may be remembered as a whole
    assert node.may_skip_pod
    assert node.locks == ("semaphore:limits/db",)
    assert node.continue_on == {Result.FAILED}
    assert node.retry is not None
    assert (node.retry.limit, node.retry.policy, node.retry.elsewhere) == (4, "Always", True)
    assert node.retry.backoff is not None
    assert [node.retry.backoff.wait_s(attempts) for attempts in (1, 2, 3, 9999)] == [90, 180, 300, 300]
    assert node.retry.backoff.max_s == 3600
    assert (graph.parallelism, graph.locks) == (7, ("mutex:all",))


def test_a_retry_may_be_without_limit_or_only_known_at_run_time() -> None:
    raw = workflow(
        dag("main", task("a", "x", arguments=parameters(n="{{workflow.uid}}")), task("b", "y")),
        container("x", inputs=inputs("n"), retryStrategy={"limit": "{{inputs.parameters.n}}"}),
        container("y"),
        retryStrategy={"expression": "true"},
    )
    first, second = graph_of(raw).nodes
    assert first.retry is not None
    assert (first.retry.limit, first.retry.limit_expression) == (None, "{{workflow.uid}}")
    assert second.retry is not None
    assert (second.retry.limit, second.retry.limit_expression, second.retry.policy) == (None, "", "Always")


def test_template_defaults_are_put_under_every_template() -> None:
    raw = workflow(
        steps("main", [task("a"), task("b", "own")]),
        LEAF,
        {"name": "own", "script": {"image": "s", "source": "x"}, "nodeSelector": {"a": "own"}},
        templateDefaults={
            "nodeSelector": {"a": "default", "b": "default"},
            "container": {"resources": {"requests": {"cpu": "2"}}},
            "retryStrategy": {"limit": "1"},
        },
    )
    first, second = graph_of(raw).nodes
    assert first.pod is not None
    assert second.pod is not None
    assert first.pod.shape.requests["cpu"] == 2000
    assert "cpu" not in second.pod.shape.requests  # a default of another type
    assert [item.values[0] for item in second.pod.shape.node_selector] == ["own", "default"]
    assert first.retry is not None
    assert second.retry is not None


def test_cron_workflows_are_the_workflow_they_make() -> None:
    raw = workflow(LEAF)
    cron = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "nightly", "namespace": "jobs"},
        "spec": {"schedules": ["0 3 * * *"], "workflowSpec": raw["spec"]},
    }
    graph = graph_of(cron)
    assert (graph.origin, graph.name, places(graph)) == ("cron/nightly", "", [""])


@pytest.mark.parametrize(
    ("metadata", "spec", "origin"),
    [
        ({"name": "nightly"}, {}, "name/nightly"),
        ({"generateName": "nightly-"}, {}, "generated/nightly"),
        ({"name": "nightly-x8k2p", "generateName": "nightly-"}, {}, "generated/nightly"),
        ({"name": "x", "labels": {"workflows.argoproj.io/cron-workflow": "c"}}, {}, "cron/c"),
        ({"name": "x", "labels": {"workflows.argoproj.io/workflow-template": "t"}}, {}, "template/t"),
        ({"name": "x"}, {"workflowTemplateRef": {"name": "lib"}}, "template/lib"),
    ],
)
def test_runs_of_one_origin_share_their_history(metadata: dict, spec: dict, origin: str) -> None:
    library = workflow(LEAF, kind="WorkflowTemplate", name="lib", entrypoint="leaf")
    raw = workflow(LEAF)
    raw["metadata"] = {"namespace": "jobs", **metadata}
    if spec:
        raw["spec"] = spec
    assert graph_of(raw, library).origin == origin


def test_global_variables_are_known_as_far_as_they_can_be() -> None:
    show = container("show", inputs=inputs("m"))
    names = [
        "workflow.name",
        "workflow.namespace",
        "workflow.labels.team",
        "workflow.annotations.a",
        "workflow.priority",
        "workflow.mainEntrypoint",
        "workflow.serviceAccountName",
        "workflow.parameters",
        "workflow.uid",
        "workflow.status",
    ]
    raw = workflow(
        steps(
            "main",
            [
                task(f"s{number}", "show", arguments=parameters(m=f"{{{{{name}}}}}"))
                for number, name in enumerate(names)
            ],
        ),
        show,
        arguments=parameters(x=1),
        priority=5,
        serviceAccountName="sa",
        workflowMetadata={"annotations": {"a": "b"}},
    )
    raw["metadata"]["labels"] = {"team": "blue"}
    values = [node.inputs[0][1] for node in graph_of(raw).nodes]
    assert values == [
        "wf",
        "jobs",
        "blue",
        "b",
        "5",
        "main",
        "sa",
        '[{"name":"x","value":"1"}]',
        "{{workflow.uid}}",
        "{{workflow.status}}",
    ]
