"""Reading a workflow: its tasks by their path, its end, and how far one came that did not end."""

from typing import cast

import pytest
from lightkube import Client
from lightkube.generic_resource import GenericNamespacedResource

from testbed import argo
from testbed.argo.workflows import Workflow
from testbed.errors import ComponentFailed
from testbed.spec import Json


def node(name: str, kind: str = "Pod", phase: str = "Succeeded") -> Json:
    return {"name": name, "displayName": name.rpartition(".")[2], "type": kind, "phase": phase}


def workflow(*nodes: Json, phase: str = "Running", **status: object) -> Json:
    by_id = {str(number): node for number, node in enumerate(nodes)}
    return {"metadata": {"name": "w"}, "status": {"phase": phase, "nodes": by_id, **status}}


class Server:
    """A client whose workflow changes with every look."""

    def __init__(self, *looks: Json) -> None:
        self.looks = list(looks)

    def get(self, kind: type, name: str, *, namespace: str) -> GenericNamespacedResource:
        assert (kind, name, namespace) == (Workflow, "w", "n")
        return Workflow.from_dict(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])

    def client(self) -> Client:
        return cast("Client", self)


def test_tasks_are_named_by_their_path() -> None:
    whole = workflow(
        node("w", "DAG"), node("w.a"), node("w.inner", "DAG"), node("w.inner.a"), node("w.f", "TaskGroup"),
        node("w.f(0:x.y)"), node("w.onExit"),
    )  # fmt: skip
    assert list(argo.nodes(whole)) == ["w", "a", "inner", "inner.a", "f", "f(0:x.y)", "onExit"]
    assert list(argo.pod_nodes(whole)) == ["a", "inner.a", "f(0:x.y)", "onExit"]


@pytest.mark.parametrize("new", [{"metadata": {"name": "w"}}, {"metadata": {"name": "w"}, "status": None}])
def test_a_workflow_that_nobody_looked_at_has_no_phase_and_no_tasks(new: Json) -> None:
    assert argo.phase_of(new) == ""
    assert argo.nodes(new) == {}


@pytest.mark.parametrize("packed", [{"compressedNodes": "H4sI"}, {"offloadNodeStatusVersion": "fnv:1"}])
def test_packed_tasks_are_refused_rather_than_not_seen(packed: Json) -> None:
    with pytest.raises(ComponentFailed, match="packed"):
        argo.nodes(workflow(**packed))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Error"])
def test_the_end_is_waited_for_however_it_comes(phase: str) -> None:
    server = Server({"metadata": {"name": "w"}}, workflow(), workflow(phase=phase))
    assert argo.phase_of(argo.wait_for_end(server.client(), "n", "w", within_s=5.0)) == phase


def test_a_workflow_that_is_late_says_how_far_it_is() -> None:
    server = Server(workflow(node("w.a"), node("w.b", phase="Pending")))
    with pytest.raises(ComponentFailed, match=r"n/w is over: not within .* Running, a=Succeeded, b=Pending"):
        argo.wait_for_end(server.client(), "n", "w", within_s=0.0)


def test_a_workflow_that_no_controller_took_up_says_so() -> None:
    server = Server({"metadata": {"name": "w"}})
    with pytest.raises(ComponentFailed, match="phase none, no task yet"):
        argo.wait_for_end(server.client(), "n", "w", within_s=0.0)
