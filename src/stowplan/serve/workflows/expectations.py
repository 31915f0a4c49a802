"""How long tasks will take: the duration model's answers, for nodes of graphs and for pods.

What has no pod takes no room, and is only on the way of others. A suspension lasts as long as somebody likes,
so it counts for nothing; a request of an agent is taken to be short; a daemon is waited for until it is up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from stowplan.core.domain import (
    CPU,
    ClassKey,
    Phase,
    PodShape,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    WorkShape,
)
from stowplan.core.domain.caching import forget_oldest
from stowplan.kube.argo import Node, NodeKind, TaskGraph, history_key
from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.expected import ExpectedDuration

__all__ = ["Expectations", "item_of_place", "one_task"]

_ITEM: Final = re.compile(r"#(\*|[0-9]+)")
_WITHOUT_POD_S: Final = {NodeKind.AGENT: 1.0, NodeKind.SUSPEND: 0.0, NodeKind.JOIN: 0.0}
_UP_S: Final = 5.0  # from a daemon's start until it is ready
_CACHED: Final = 16384
_TASKS: Final = 1024  # that later pods may share: most pods have labels of their own, and are met once
_ONE_CORE_MILLI: Final = 1000  # a task without a request is taken to keep one core busy

Question = tuple[ClassKey, str, str, WorkShape | None]


def item_of_place(place: str) -> str:
    """Return the item that a place stands for, as `classes.item_of` writes it; empty for none or any."""
    found = _ITEM.findall(place)
    return "" if "*" in found else ".".join(found)


def one_task(task: Task) -> WorkflowProgress:
    """Return a workflow of one task, which waits."""
    progress = WorkflowProgress(task.name, Workflow(task.name, (task,)), 0.0)
    progress.start()
    return progress


class Expectations:
    """The newest duration model, and its answers.

    Attributes:
        epoch: how many models there were before; whoever keeps an answer keeps the epoch with it.
    """

    def __init__(self) -> None:
        """Begin with a model that has seen nothing."""
        self.epoch = 0
        self._model = DurationModel(())
        self._answers: dict[Question, ExpectedDuration] = {}
        self._tasks: dict[tuple[ClassKey, str, WorkShape | None, PodShape], Task] = {}
        self._alone: dict[int, WorkflowProgress] = {}

    @property
    def model(self) -> DurationModel:
        """The newest model."""
        return self._model

    def renew(self, model: DurationModel) -> None:
        """Answer from `model` from now on."""
        self._model = model
        self._answers = {}  # a thread may still be filling the old one
        self._tasks, self._alone = {}, {}
        self.epoch += 1

    def expected(
        self, key: ClassKey, item: str = "", node_class: str = "", shape: WorkShape | None = None
    ) -> ExpectedDuration:
        """Return how long the next run of a class will take; see `DurationModel.expected`."""
        answers, question = self._answers, (key, item, node_class, shape)
        known = answers.get(question)
        if known is None:
            if len(answers) >= _CACHED:
                answers.clear()
            known = answers[question] = self._model.expected(
                key, item=item, node_class=node_class, shape=shape
            )
        return known

    def of_graph(self, graph: TaskGraph) -> Callable[[Node], float]:
        """Return what gives the expected seconds of a graph's nodes, by the present model."""

        def seconds(node: Node) -> float:
            fixed_s = _WITHOUT_POD_S.get(node.kind)
            if fixed_s is not None:
                return fixed_s
            if node.daemon:
                return _UP_S
            return self.expected(history_key(graph, node), item_of_place(node.place)).expected_s

        return seconds

    def task(self, key: ClassKey, item: str, shape: WorkShape | None, pod: PodShape) -> Task:
        """Return a pod's task with its own duration, on a usual node and on each kind that is known."""
        tasks, question = self._tasks, (key, item, shape, pod)
        known = tasks.pop(question, None)
        if known is not None:
            tasks[question] = known  # the least recently asked for stands first
            return known
        expected = self.expected(key, item, shape=shape)
        milli = pod.requests.get(CPU, 0) or _ONE_CORE_MILLI
        kinds = self._model.node_classes.common
        factors = ()
        if len(kinds) > 1:
            factors = tuple(
                (kind, self.expected(key, item, kind, shape).expected_s / expected.expected_s)
                for kind in sorted(kinds)
            )
        work = WorkProfile(
            (Phase(work_s=expected.expected_s, cpu_cores=milli / 1000),), machine_factors=factors
        )
        task = tasks[question] = Task(
            name=key.in_words(), shape=pod, work=work, expected_s=expected.expected_s, template=key.template
        )
        forget_oldest(tasks, _TASKS)
        return task

    def alone(self, task: Task) -> WorkflowProgress:
        """Return the workflow that pods of no workflow with this task share."""
        known = self._alone.pop(id(task), None)
        if known is None or known.workflow.tasks[0] is not task:
            known = one_task(task)
        self._alone[id(task)] = known
        forget_oldest(self._alone, _TASKS)
        return known
