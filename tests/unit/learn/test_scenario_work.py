"""What drawn work is like: graphs of every shape, demands of every size, equal tasks, how fast it comes."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.core.domain import CPU, MEMORY, Node, Phase, Resources, Task, Workflow, WorkProfile
from stowplan.learn.rollouts import Job, Worker
from stowplan.learn.scenarios import Ranges, Split, draw_scenario, load_recordings
from stowplan.learn.scenarios.demands import KEPT, draw_demands, task_of
from stowplan.learn.scenarios.graphs import SHAPES, Graph, draw_graph
from stowplan.learn.scenarios.load import mean_gap_s, room_for
from stowplan.learn.scenarios.machines import draw_types
from stowplan.learn.scenarios.programs import draw_programs, programmed
from stowplan.learn.scenarios.synthetic import draw_workflow
from stowplan.learn.settings import Settings
from stowplan.learn.survey import Survey
from stowplan.learn.training import setup_of
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.work_rules import pod_shape

RECORDINGS = load_recordings(None, Split.TRAINING)
GIB = float(1 << 30)
MIB = float(1 << 20)


@given(st.sampled_from(SHAPES), st.integers(0, 2**32), st.integers(2, 400))
def test_graphs_are_of_the_size_asked_for_and_have_no_cycle(
    shape: Callable[[np.random.Generator, int], Graph], seed: int, most: int
) -> None:
    graph = shape(np.random.default_rng(seed), most)
    assert 1 <= len(graph.template) <= most + 20
    assert len(set(graph.edges)) == len(graph.edges)
    assert all(0 <= parent < child < len(graph.template) for parent, child in graph.edges)
    assert sorted(set(graph.template)) == list(range(max(graph.template) + 1)) or shape.__name__ == "_wide"


def test_graphs_are_deep_wide_and_without_edges() -> None:
    rng = np.random.default_rng(1)
    graphs = [draw_graph(rng, 200) for _ in range(200)]
    widest = [max(Counter(graph.template).values()) for graph in graphs]
    assert max(widest) > 100
    assert any(len(graph.template) > 5 and max(Counter(graph.template).values()) == 1 for graph in graphs)
    assert any(len(graph.template) > 5 and not graph.edges for graph in graphs)


def test_demands_span_orders_of_magnitude_and_fit_a_node() -> None:
    rng = np.random.default_rng(1)
    types = draw_types(rng, Ranges(machine_types=(6, 6)), has_gpus=False)
    drawn = [draw_demands(rng, types) for _ in range(3000)]
    whole = {math.floor(1000 * KEPT[0] * kind.hardware.cores) for kind in types}
    milli = np.array([one.request_milli for one in drawn])
    assert milli.min() == 100
    assert milli.max() == max(whole)
    assert whole <= set(milli.tolist())
    largest = KEPT[1] * max(kind.memory_bytes for kind in types)
    asked = np.array([one.request_bytes for one in drawn])
    assert asked.min() < 32 * MIB
    assert 0.9 * largest < asked.max() <= largest
    assert all(one.anon_bytes <= one.request_bytes for one in drawn)
    disk = max(kind.hardware.disks[0].base_bytes_per_s for kind in types)
    network = max(kind.hardware.nic_down_bytes_per_s for kind in types)
    for name, most in (
        ("read_bytes_per_s", disk),
        ("write_bytes_per_s", disk),
        ("down_bytes_per_s", network),
        ("up_bytes_per_s", network),
    ):
        rates = np.array([getattr(one, name) for one in drawn])
        used = rates[rates > 0.0]
        assert 0.1 < used.size / rates.size < 0.7
        assert used.max() <= most
        assert used.max() / used.min() > 100.0
    lengths = np.array([one.mean_s for one in drawn])
    assert lengths.min() < 3.0
    assert lengths.max() > 3000.0


@given(st.integers(0, 2**32), st.floats(0.1, 10.0))
def test_a_task_of_drawn_demands_is_whole(seed: int, ratio: float) -> None:
    """Phases add up to the length, files to what phases move, and GPUs stay."""
    rng = np.random.default_rng(seed)
    demands = draw_demands(rng, draw_types(rng, Ranges(), has_gpus=True))
    work = WorkProfile((Phase(3.0, pcie_bytes_per_s=5.0), Phase(1.0)))
    before = Task("a", pod_shape(1000, 1 << 30), work, 4.0, "t")
    task = task_of(demands, before, ratio)
    assert task.work.alone_s == pytest.approx(max(demands.mean_s * ratio, 0.2))
    assert task.expected_s == task.work.alone_s
    read = sum(p.work_s * p.disk_read_bytes_per_s for p in task.work.phases)
    written = sum(p.work_s * p.disk_write_bytes_per_s for p in task.work.phases)
    assert task.work.cache_bytes == pytest.approx(read + written)
    assert task.input_bytes >= read * (1 - 1e-9)
    assert task.output_bytes >= written * (1 - 1e-9)
    assert max(p.pcie_bytes_per_s for p in task.work.phases) == 5.0
    assert task.shape.requests[CPU] == demands.request_milli
    assert task.shape.requests[MEMORY] == demands.request_bytes


def _made(**ranges: float) -> tuple[Workflow, Workflow]:
    rng = np.random.default_rng(3)
    drawn = Ranges(estimate_error_share=0.0, **ranges)  # pyright: ignore[reportArgumentType]
    types = draw_types(rng, drawn, has_gpus=False)
    before = draw_workflow(rng, "w", most_tasks=80, uses_gpus=False)
    (after,) = programmed([before], draw_programs(rng, drawn, [before], types))
    return before, after


def test_tasks_of_a_program_are_equal_or_each_has_its_own() -> None:
    for share in (0.0, 1.0):
        before, after = _made(equal_share=share, redrawn_share=0.5)
        assert [task.name for task in after.tasks] == [task.name for task in before.tasks]
        assert after.edges == before.edges
        for template, count in Counter(task.template for task in after.tasks).items():
            kinds = {
                (task.work, task.shape, task.expected_s) for task in after.tasks if task.template == template
            }
            assert len(kinds) == (1 if share else count)


def test_durations_of_a_redrawn_program_are_spread_as_before() -> None:
    before, after = _made(equal_share=0.0, redrawn_share=1.0)
    template, count = Counter(task.template for task in before.tasks).most_common(1)[0]
    assert count > 3
    ratios = [
        new.work.alone_s / old.work.alone_s
        for old, new in zip(before.tasks, after.tasks, strict=True)
        if old.template == template
    ]
    assert ratios == pytest.approx([ratios[0]] * count)


def test_the_scarcest_resource_sets_how_fast_work_comes() -> None:
    node = Node("n", Resources({CPU: 4000, MEMORY: 1 << 30}), ())
    cluster = Cluster("c", (node, Node("m", node.allocatable, ())))
    work = WorkProfile((Phase(10.0),))
    by_cores = Workflow("a", (Task("t", pod_shape(4000, 1 << 20), work, 10.0),))
    by_memory = Workflow("b", (Task("t", pod_shape(100, 1 << 30), work, 10.0),))
    assert room_for(pod_shape(1500, 1 << 29), cluster) == 4
    assert room_for(pod_shape(1500, 1 << 31), cluster) == 0
    assert mean_gap_s([by_cores], cluster, 1.0) == pytest.approx(5.0)
    assert mean_gap_s([by_memory], cluster, 0.5) == pytest.approx(10.0)
    assert mean_gap_s([by_cores, by_memory], cluster, 1.0) == pytest.approx((10.0 / 2 + 10.0 / 2) / 2)


def test_durations_are_of_seconds_to_an_hour() -> None:
    means = [
        np.mean([task.work.alone_s for task in submission.workflow.tasks])
        for number in range(10)
        for submission in draw_scenario(
            RECORDINGS, Ranges(most_tasks=400), base_seed=1, split=Split.TRAINING, number=number
        ).workload.submissions
    ]
    assert min(means) < 10.0
    assert max(means) > 600.0


@pytest.mark.parametrize("number", range(12))
def test_no_episode_needs_more_than_its_share_of_time(number: int) -> None:
    """One workflow's longest path is bounded by the nodes, however long its tasks were drawn."""
    scenario = draw_scenario(
        RECORDINGS, Ranges(estimate_error_share=0.0), base_seed=2, split=Split.TRAINING, number=number
    )
    longest_s = max(s.workflow.critical_path()[1] for s in scenario.workload.submissions)
    assert longest_s * len(scenario.cluster) < 1.3e5


def test_every_feature_varies_but_those_of_gangs_and_of_pods_of_no_workflow(settings: Settings) -> None:
    """What is constant in training has no meaning to what is trained; the simulator has no other pods."""
    ranges = Ranges(most_tasks=200, nodes=(4, 8), gpu_share=0.5, missing_share=0.0)
    worker = Worker(setup_of(replace(settings, ranges=ranges)))
    moments = Survey().moments
    for number in range(8):
        outcome = worker.run(
            Job(number=number, actor="kube-scheduler", kept_decisions=60, surveys=True), None
        )
        assert outcome.survey is not None
        moments = [one.merged(more) for one, more in zip(moments, outcome.survey.moments, strict=True)]
    constant = {
        feature.name
        for part in moments
        for feature, variance in zip(part.features, part.variance.tolist(), strict=True)
        if variance < 1e-12
    }
    assert constant == {
        "task.gang_tasks",
        "task.reduced_bytes_per_s",
        "node.known_pods_share",
        "node.other_cpu_share",
    }
