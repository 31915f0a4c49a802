"""Whichever way a workflow came to its state: the progress is that of the state."""

import random
from functools import partial

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from stowplan.core.domain import TaskStatus
from stowplan.serve.workflows.index import GraphIndex, Scope
from stowplan.serve.workflows.reading import Fact
from stowplan.serve.workflows.tracking import Tracking
from tests.property.argo.strategies import workflows
from tests.unit.workflows.cases import Followed, Json, node, status

SEEDS = st.integers(0, 2**32)  # a generator that hypothesis hands out is far slower
PHASES = ["Pending", "Running", "Succeeded", "Failed", "Error", "Skipped", "Omitted"]
LEAVES = ["Pod", "Retry", "HTTP"]
COMPOSITES = ["DAG", "Steps", "StepGroup", "TaskGroup", "Retry"]


def _name(place: str, tried: set[str], generator: random.Random) -> str:
    """A name that the controller might give to a node at a place, with items and attempts."""
    pieces = place.replace("#", "\0#").replace(".", "\0.").replace("[", "\0[").split("\0")
    name = seen = ""
    for number, piece in enumerate(pieces):
        seen += piece
        if piece.startswith("#"):
            item = generator.randrange(3) if piece == "#*" else int(piece[1:])
            name += f"({item}:i{item})"
        else:
            name += piece
        is_whole = number == len(pieces) - 1 and generator.random() < 0.5  # the node that has the attempts
        if seen in tried and not is_whole and not "".join(pieces[number + 1 : number + 2]).startswith("#"):
            name += f"({generator.randrange(3)})"
    return name


def _snapshots(index: GraphIndex, generator: random.Random) -> list[dict[str, Json]]:
    """Statuses, each a few changes after the one before; nodes come, change and, rarely, go."""
    leaves = [graph_node.place for graph_node in index.graph.nodes if graph_node.kind != "join"]
    composites = [call.place for call in index.graph.calls]
    composites += [place[: place.rindex("#")] for place in leaves if place.endswith("#*")]
    places = sorted({*leaves, *composites})
    tried = {place for place in places if generator.random() < 0.2}
    kinds = {place: generator.choice(LEAVES if place in leaves else COMPOSITES) for place in places}
    nodes: dict[str, Json] = {}
    found: list[dict[str, Json]] = []
    for _ in range(generator.randrange(1, 6)):
        for _ in range(generator.randrange(0, 8)):
            place = generator.choice(places)
            outputs = {"outputs": {"result": "[1, 2, 3]"}} if generator.random() < 0.2 else {}
            phase = generator.choice(PHASES)
            nodes[_name(place, tried, generator)] = node(phase, kinds[place], **outputs)
        if nodes and generator.random() < 0.1:
            del nodes[generator.choice(list(nodes))]
        found.append(dict(nodes))
    return found


def _opened(raw: Json) -> Followed:
    """The workflow before it has begun; one of which nothing would run is no example."""
    seen = Followed(raw)
    assume(not Followed(raw).reading().problem)
    seen.see()
    return seen


@given(workflows(), SEEDS)
def test_progress_after_many_statuses_is_that_of_the_last(raw: Json, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - draws an example
    step_by_step = _opened(raw)
    snapshots = _snapshots(step_by_step.live.index, generator)
    for nodes in snapshots:
        step_by_step.see(status(nodes=nodes))
    at_once = Followed(raw)
    at_once.see(status(nodes=snapshots[-1]))
    assert step_by_step.picture() == at_once.picture()


@given(workflows(), SEEDS)
def test_progress_does_not_depend_on_the_order_of_facts(raw: Json, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - draws an example
    seen = _opened(raw)
    index = seen.live.index
    facts: list[Fact] = []
    for number in range(generator.randrange(1, 12)):
        task = generator.randrange(len(index))
        items = tuple(generator.randrange(3) for _ in index.loops[task])
        state = generator.choice([TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.DONE])
        if generator.random() < 0.5:
            facts.append(partial(Tracking.pod, task=task, items=items, uid=f"u{number}", state=int(state)))
        else:
            scope = Scope("", (task,), items[: generator.randrange(len(items) + 1)])
            facts.append(partial(Tracking.enclosed, scope=scope, has_ended=True))
    shuffled = generator.sample(facts, len(facts))
    for fact in facts:
        fact(seen.live)
    seen.live.settle()
    other = _opened(raw)
    for fact in shuffled:
        fact(other.live)
    other.live.settle()
    assert seen.picture() == other.picture()


@given(workflows(), SEEDS)
def test_the_sums_are_those_of_the_tasks(raw: Json, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - draws an example
    seen = _opened(raw)
    for nodes in _snapshots(seen.live.index, generator):
        seen.see(status(nodes=nodes))
        live, progress = seen.live, seen.live.progress
        is_open = progress.status < TaskStatus.DONE
        assert progress.open_tasks == is_open.sum()
        above = [sum(bool(is_open[parent]) for parent in parents) for parents in progress.workflow.parents]
        assert progress.unfinished_parents.tolist() == above
        views = [live.view(task) for task in range(len(live.index))]
        assert progress.remaining_work_s == sum(
            view.open * task.expected_s for view, task in zip(views, progress.workflow.tasks, strict=True)
        )
        left_s = np.where(is_open, progress.workflow.expected_s, 0.0)
        ranks_s = progress.workflow.upward_ranks(left_s)
        assert (progress.upward_rank_s[is_open] == ranks_s[is_open]).all()
    seen.see(status("Failed", nodes={}))
    assert seen.live.progress.is_finished
    assert seen.live.progress.remaining_work_s == 0.0


@given(workflows())
def test_as_many_instances_are_counted_as_the_graph_has(raw: Json) -> None:
    seen = _opened(raw)
    view = seen.live.index.view
    for task, count in enumerate(view.counts):
        if task not in seen.live.index.joins:
            assert seen.live.view(task).count == count
