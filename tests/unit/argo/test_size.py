"""Large workflows are read whole and in little memory; how fast is measured by bench/argo_reader.py."""

import tracemalloc

import pytest

from bench.argo_reader import STYLES, TASKS, large_workflow
from stowplan.kube.argo import open_object, read_graph, to_domain
from tests.unit.argo.cases import container, steps, task, workflow


@pytest.mark.parametrize("style", STYLES)
def test_a_task_graph_of_five_thousand_tasks_has_one_pod_per_template(style: str) -> None:
    graph = read_graph(open_object(large_workflow(style)))
    assert len(graph.nodes) == TASKS
    assert len({id(node.pod) for node in graph.nodes}) == 20


def test_thousands_of_steps_side_by_side_need_few_edges() -> None:
    raw = workflow(
        steps("main", *([task(f"s{group}-{number}") for number in range(2000)] for group in range(2))),
        container("leaf"),
    )
    graph = read_graph(open_object(raw))
    assert sum(len(node.parents) for node in graph.nodes) < 10_000
    view = to_domain(graph, lambda _: 1.0)
    assert max(view.workflow.upward_ranks()) == 2.0


def test_a_million_items_are_one_node() -> None:
    raw = workflow(
        steps("main", [task("p", withSequence={"count": "1000000", "format": "n%d"})], [task("q")]),
        container("leaf"),
    )
    tracemalloc.start()
    try:
        graph = read_graph(open_object(raw))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(graph.nodes) == 2
    assert graph.pod_count() == 1_000_001
    assert peak < 2_000_000
