"""Live workflows that tests are made of: objects, statuses as the controller writes them, pods."""

import base64
import dataclasses
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from stowplan.core.domain import CPU, MEMORY, PodShape, Resources, TaskStatus
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.argo import AgentPod, ArgoObject, Node, Shelf, TaskGraph, TaskPod, node_id, parse_node_name
from stowplan.kube.live.pod import LivePod, MainContainer, Owner
from stowplan.serve.workflows.document import ExpectedOf, Reading, WorkflowReader
from stowplan.serve.workflows.tracking import Tracking

Json = dict[str, Any]
T0 = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def node(phase: str, kind: str = "Pod", **fields: object) -> Json:
    """A node of a status, but for its name."""
    return {"phase": phase, "type": kind, **fields}


def status(phase: str = "Running", nodes: Mapping[str, Json] | None = None, **fields: object) -> Json:
    """A status; the nodes are by the part of their name after that of the workflow `wf`."""
    named = {
        node_id("wf", f"wf{path}"): {"id": node_id("wf", f"wf{path}"), "name": f"wf{path}", **fields_of}
        for path, fields_of in (nodes or {}).items()
    }
    return {"phase": phase, "startedAt": "2023-11-14T22:13:21Z", "nodes": named, **fields}


def compressed(full: Json) -> Json:
    """The same status as the controller writes it where it is large."""
    packed = base64.b64encode(gzip.compress(json.dumps(full["nodes"]).encode(), mtime=0)).decode()
    return {**{key: value for key, value in full.items() if key != "nodes"}, "compressedNodes": packed}


def raw(workflow: Json, status: Json | None = None, uid: str = "uid-wf") -> bytes:
    """A Workflow as the API server sends it in a list: without kind."""
    metadata = {"uid": uid, "creationTimestamp": "2023-11-14T22:13:20Z", **workflow["metadata"]}
    body = {"metadata": metadata, "spec": workflow["spec"]}
    return msgspec.json.encode(body if status is None else {**body, "status": status})


def seconds(**by_place: float) -> ExpectedOf:
    """One second for each node, or what is given for a template."""

    def of(_graph: TaskGraph) -> Callable[[Node], float]:
        return lambda node: by_place.get(node.template, 1.0)

    return of


class Followed:
    """A workflow that is read version by version."""

    def __init__(
        self,
        workflow: Json,
        *templates: ArgoObject,
        expected_of: ExpectedOf | None = None,
        uid: str = "uid-wf",
    ) -> None:
        self.workflow = workflow
        self.reader = WorkflowReader()
        self.shelf = Shelf(templates)
        self.expected_of = expected_of or seconds()
        self.uid = uid
        self.tracking: Tracking | None = None
        self.rebuilt = 0
        self.facts = 0

    def reading(self, status: Json | None = None) -> Reading:
        return self.reader.read(raw(self.workflow, status, self.uid), self.shelf, self.expected_of, 0.0)

    def see(self, status: Json | None = None) -> Reading:
        reading = self.reading(status)
        if reading.tracking is not None:
            self.tracking = reading.tracking
            self.rebuilt += 1
        assert self.tracking is not None, reading.problem
        for fact in reading.facts:
            fact(self.tracking)
        self.facts += len(reading.facts)
        self.tracking.settle()
        return reading

    @property
    def live(self) -> Tracking:
        assert self.tracking is not None
        return self.tracking

    def node(self, task: int) -> Node:
        return self.live.index.graph.nodes[self.live.index.view.nodes[task]]

    def states(self) -> dict[str, str]:
        """The status of each task by place."""
        return {
            self.node(task).place: TaskStatus(int(state)).name
            for task, state in enumerate(self.live.progress.status)
            if task not in self.live.index.joins
        }

    def open(self) -> dict[str, int]:
        """How many instances of each task have not ended, those with none left out."""
        views = {self.node(task).place: self.live.view(task) for task in range(len(self.live.index))}
        return {place: view.open for place, view in views.items() if view.open}

    def ranks(self) -> dict[str, float]:
        """The upward rank of each open task by place."""
        progress = self.live.progress
        return {
            self.node(task).place: float(progress.upward_rank_s[task])
            for task in np.flatnonzero(progress.status < TaskStatus.DONE).tolist()
            if task not in self.live.index.joins
        }

    def picture(self) -> object:
        """All that policies and people see."""
        progress = self.live.progress
        return (
            self.states(),
            self.open(),
            progress.unfinished_parents.tolist(),
            progress.open_tasks,
            round(progress.remaining_work_s, 6),
            self.ranks(),
        )


SHAPE = PodShape(
    requests=Resources({CPU: 500, MEMORY: 2**28}),
    score_cpu_milli=500,
    score_memory_bytes=2**28,
    namespace="jobs",
)


def main(**fields: object) -> MainContainer:
    """A main container."""
    given: Json = {
        "image": "busybox",
        "command": ("sh", "-c", "true"),
        "cpu_request_milli": 500,
        "memory_request_bytes": 2**28,
    }
    given.update(fields)
    return MainContainer(**given)


def pod(name: str, **fields: object) -> LivePod:
    """A pod that waits."""
    given: Json = {
        "key": f"jobs/{name}",
        "namespace": "jobs",
        "name": name,
        "uid": f"uid-{name}",
        "shape": SHAPE,
        "phase": "Pending",
        "node_name": "",
        "is_terminating": False,
        "created_s": T0,
        "started_s": None,
        "status": SchedulingStatus(),
        "reason": "",
        "message": "",
        "can_preempt": True,
        "owner": None,
        "identity": None,
        "main": main(),
    }
    given.update(fields)
    return LivePod(**given)


def task_pod(
    path: str, *, workflow: str = "wf", uid: str = "uid-wf", template: str = "leaf", **fields: object
) -> LivePod:
    """A pod of a workflow; `path` is the part of its node's name after that of the workflow."""
    node_name = f"{workflow}{path}"
    identity = TaskPod(
        "jobs",
        workflow,
        node_name,
        node_id(workflow, node_name),
        parse_node_name(workflow, node_name),
        template,
    )
    owner = Owner("Workflow", workflow, uid)
    name = node_id(workflow, node_name) if path else workflow
    given: Json = {"identity": identity, "owner": owner, **fields}
    return pod(name, **given)


def agent_pod(workflow: str = "wf", uid: str = "uid-wf", **fields: object) -> LivePod:
    """The pod of a workflow's http templates."""
    owner = Owner("Workflow", workflow, uid)
    given: Json = {"identity": AgentPod("jobs", workflow), "owner": owner, **fields}
    return pod(f"{workflow}-agent", **given)


def running(waiting: LivePod, node_name: str = "n1", started_s: float | None = None) -> LivePod:
    """The pod on a node; with `started_s` its main container runs."""
    container = dataclasses.replace(waiting.main, started_s=started_s)
    return dataclasses.replace(waiting, node_name=node_name, phase="Running", main=container)


def ended(live: LivePod, phase: str = "Succeeded", **of_main: object) -> LivePod:
    """The pod after its end."""
    fields = {"exit_code": 0, "reason": "Completed", **of_main}
    return dataclasses.replace(live, phase=phase, main=dataclasses.replace(live.main, **fields))
