"""Measures of random DAGs against an independent graph library, and quantities against exact fractions."""

import itertools
from fractions import Fraction

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.core.domain import Phase, PodShape, Task, Workflow, WorkProfile
from stowplan.core.domain.quantity import format_bytes, milli_value, parse_quantity, value


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    count = draw(st.integers(1, 25))
    durations = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    order = draw(st.permutations(range(count)))
    pairs = [(order[i], order[j]) for i in range(count) for j in range(i + 1, count)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=60)) if pairs else []
    tasks = tuple(Task(f"t{i}", PodShape(), WorkProfile((Phase(d),)), d) for i, d in enumerate(durations))
    return Workflow("w", tasks, tuple((f"t{a}", f"t{b}") for a, b in edges))


@given(workflows())
def test_measures_agree_with_networkx(workflow: Workflow) -> None:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(workflow)))
    for parent, child in workflow.edges:
        a, b = workflow.index_of[parent], workflow.index_of[child]
        graph.add_edge(a, b, weight=workflow.tasks[a].expected_s)
    depth = [0] * len(workflow)
    for generation, members in enumerate(nx.topological_generations(graph)):
        for index in members:
            depth[index] = generation
    assert workflow.depths().tolist() == depth
    position = {index: place for place, index in enumerate(workflow.topological_order)}
    assert all(position[a] < position[b] for a, b in graph.edges)

    path, length = workflow.critical_path()
    assert all(graph.has_edge(a, b) for a, b in itertools.pairwise(path))
    assert length == sum(workflow.tasks[index].expected_s for index in path)
    sink = len(workflow)
    for index in range(len(workflow)):
        graph.add_edge(index, sink, weight=workflow.tasks[index].expected_s)
    assert length == nx.dag_longest_path_length(graph, weight="weight")
    through = workflow.upward_ranks() + workflow.downward_ranks()
    assert through.max() == length
    assert np.all(through[list(path)] == length)


@given(st.decimals(min_value=0, max_value=10**6, places=6), st.sampled_from(["", "k", "Mi", "Gi", "m", "u"]))
def test_quantities_are_exact_and_round_up(number: object, suffix: str) -> None:
    scale = {"": 1, "k": 1000, "Mi": 2**20, "Gi": 2**30, "m": Fraction(1, 1000), "u": Fraction(1, 10**6)}[
        suffix
    ]
    exact = Fraction(str(number)) * scale
    text = f"{number}{suffix}"
    assert 0 <= parse_quantity(text) - exact < Fraction(1, 10**9)
    assert 0 <= value(text) - exact < 1 + Fraction(1, 10**9)
    assert 0 <= milli_value(text) - 1000 * exact < 1 + Fraction(1, 10**6)


@given(st.integers(0, 2**62))
def test_bytes_survive_being_shown(count_bytes: int) -> None:
    assert value(format_bytes(count_bytes)) == count_bytes
