"""Task graphs: hooks, limits, retries, defaults, origins and global variables."""

import pytest

from stowplan.kube.argo import Chance, Hook, Result
from tests.unit.argo.cases import (
    chances,
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
