"""What holds of the graph of every workflow, and of every reading of one that has been damaged."""

import copy
from typing import Any

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.errors import InvalidObject, InvalidWorkflow
from stowplan.kube.argo import (
    Chance,
    NodeKind,
    ReadLimits,
    Shelf,
    TaskGraph,
    identify_pod,
    match_pod,
    open_object,
    read_graph,
    to_domain,
)
from stowplan.kube.argo.matching import TaskPod
from tests.property.argo.strategies import JUNK, workflows
from tests.unit.argo.cases import parameters, workflow

Json = dict[str, Any]
FIELDS = (
    *(
        "depends",
        "when",
        "withItems",
        "withParam",
        "withSequence",
        "template",
        "templateRef",
        "inline",
        "hooks",
    ),
    *(
        "arguments",
        "dag",
        "steps",
        "name",
        "value",
        "podSpecPatch",
        "nodeSelector",
        "retryStrategy",
        "onExit",
    ),
)


def reaches(graph: TaskGraph) -> nx.DiGraph:
    """The graph as networkx has it."""
    found = nx.DiGraph()
    found.add_nodes_from(node.index for node in graph.nodes)
    found.add_edges_from((parent, node.index) for node in graph.nodes for parent in node.parents)
    return found


@settings(max_examples=50)
@given(workflows())
def test_parents_come_first_and_places_are_unique(raw: Json) -> None:
    graph = read_graph(open_object(raw))
    assert [node.index for node in graph.nodes] == list(range(len(graph.nodes)))
    assert all(parent < node.index for node in graph.nodes for parent in node.parents)
    assert all(len(set(node.parents)) == len(node.parents) for node in graph.nodes)
    places = [node.place for node in graph.nodes]
    assert len(set(places)) == len(places)
    for node in graph.nodes:
        for call in graph.callers(node.call):
            assert node.place.startswith(call.place)
            assert node.kind is NodeKind.JOIN or node.chance >= call.chance


@settings(max_examples=50)
@given(workflows(), st.sampled_from([0, 1, 3, 1000]))
def test_how_far_fan_outs_are_expanded_changes_no_count(raw: Json, expand_up_to: int) -> None:
    graph = read_graph(open_object(raw))
    other = read_graph(open_object(raw), limits=ReadLimits(expand_up_to=expand_up_to))
    if all(node.chance is Chance.CERTAIN for node in (*graph.nodes, *other.nodes)):
        assert graph.pod_count() == other.pod_count()
    assert max(node.chance for node in graph.nodes) >= min(node.chance for node in other.nodes)


@settings(max_examples=50)
@given(workflows())
def test_the_core_s_workflow_keeps_the_order_of_the_graph(raw: Json) -> None:
    graph = read_graph(open_object(raw))
    if all(node.chance > Chance.CONDITIONAL for node in graph.nodes if node.kind is not NodeKind.JOIN):
        return
    view = to_domain(graph, lambda _: 1.0)
    whole = nx.transitive_closure_dag(reaches(graph))
    order = nx.DiGraph()
    order.add_nodes_from(range(len(view.nodes)))
    order.add_edges_from(
        (view.workflow.index_of[parent], view.workflow.index_of[child])
        for parent, child in view.workflow.edges
    )
    closed = nx.transitive_closure_dag(order)
    for first in range(len(view.nodes)):
        for second in range(len(view.nodes)):
            assert closed.has_edge(first, second) == whole.has_edge(view.nodes[first], view.nodes[second])


@settings(max_examples=50)
@given(workflows(), st.data())
def test_every_node_is_found_again_by_the_name_of_its_pod(raw: Json, data: st.DataObject) -> None:
    graph = read_graph(open_object(raw))
    node = data.draw(st.sampled_from([node for node in graph.nodes if node.kind is not NodeKind.JOIN]))
    first, *items = node.place.split("#")
    name = f"wf{first}"
    for item in items:  # "2.next" or "*.next"
        number = item[: len(item) - len(item.lstrip("0123456789*"))]
        index = data.draw(st.integers(0, 9999)) if number == "*" else int(number)
        text = data.draw(st.sampled_from(["x", "a.b[0]", ""]))
        name += f"({index}:{text}){item[len(number) :]}"
    name += data.draw(st.sampled_from(["", "(0)", "(12)"]))
    labels = {"workflows.argoproj.io/workflow": "wf"}
    metadata = {"name": "p", "labels": labels, "annotations": {"workflows.argoproj.io/node-name": name}}
    pod = identify_pod({"metadata": metadata})
    assert isinstance(pod, TaskPod)
    match = match_pod(graph, pod)
    assert match is not None
    assert match.node is node
    assert match.attempt == (12 if name.endswith("(12)") else 0)


def paths(value: object, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [here]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*here, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += paths(item, (*here, number))
    return found


def damage(raw: Json, data: st.DataObject) -> Json:
    """The object with one to three of its values replaced or added to."""
    damaged = copy.deepcopy(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(damaged)))
        junk = copy.deepcopy(data.draw(JUNK))
        if not path:
            continue
        holder: Any = damaged
        for key in path[:-1]:
            holder = holder[key]
        if data.draw(st.booleans()) or not isinstance(holder, dict):
            holder[path[-1]] = junk
        else:
            holder[data.draw(st.sampled_from(FIELDS))] = junk
    return damaged


@settings(max_examples=50)
@given(workflows(), st.data())
def test_a_damaged_workflow_is_read_or_refused_but_breaks_nothing(raw: Json, data: st.DataObject) -> None:
    damaged = damage(raw, data)
    try:
        graph = read_graph(open_object(damaged), limits=ReadLimits(max_nodes=3000))
        to_domain(graph, lambda _: 1.0)
    except (InvalidWorkflow, InvalidObject) as error:
        assert str(error)  # noqa: PT017  (either outcome is right; a refusal must say why)


@settings(max_examples=50)
@given(workflows(), st.data())
def test_so_is_one_with_a_damaged_template(raw: Json, data: st.DataObject) -> None:
    library = {**raw, "kind": "WorkflowTemplate", "metadata": {"name": "lib", "namespace": "jobs"}}
    library["spec"] = {**raw["spec"], "arguments": parameters(x=1, y="{{workflow.parameters.x}}")}
    user = workflow(workflowTemplateRef={"name": "lib"}, arguments=parameters(y=2), nodeSelector={"a": "b"})
    if data.draw(st.booleans()):
        library = damage(library, data)
    else:
        user = damage(user, data)
    try:
        graph = read_graph(
            open_object(user), Shelf([open_object(library)]), limits=ReadLimits(max_nodes=3000)
        )
        assert graph.nodes
    except (InvalidWorkflow, InvalidObject) as error:
        assert str(error)  # noqa: PT017  (as above)
