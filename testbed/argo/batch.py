"""Many workflows at once: submitted together, followed at little cost, and what became of each and its pods.

Whoever measures shares the machine with what is measured. So while a batch runs, only the metadata of the
workflows that are over is asked for; everything else is read when all are.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from testbed.bulk import Connection
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.waiting import wait_for

INSTANCE = "stowplan.dev/instance"  # the label by which a workflow of one run is found again in the next
COMPLETED = "workflows.argoproj.io/completed=true"
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class EndedPod:
    """A pod that ran to its end; times are seconds since the epoch, as the kubelet tells them.

    Attributes:
        node: Where it ran.
        bound_s: When it was bound.
        started_s, finished_s: The main container's times.
    """

    namespace: str
    name: str
    uid: str
    scheduler: str
    node: str
    created_s: float
    bound_s: float
    started_s: float
    finished_s: float


@dataclass(frozen=True, kw_only=True)
class EndedWorkflow:
    """A workflow that is over; times are seconds since the epoch, whole ones."""

    instance: str
    name: str
    phase: str
    created_s: float
    finished_s: float

    @property
    def completion_s(self) -> float:
        """From its submission to its end."""
        return self.finished_s - self.created_s


def workflows_path(namespace: str) -> str:
    """Where the workflows of a namespace are."""
    return f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"


def labelled(workflow: Json, instance: str, scheduler: str) -> Json:
    """The workflow as an instance of a batch, to be placed by a scheduler of that name."""
    labels = workflow["metadata"].get("labels", {}) | {INSTANCE: instance}
    return workflow | {
        "metadata": workflow["metadata"] | {"labels": labels},
        "spec": workflow["spec"] | {"schedulerName": scheduler},
    }


def submit_all(connection: Connection, namespace: str, workflows: Mapping[str, Json], scheduler: str) -> None:
    """Create workflows, by instance, one after the other in their order."""
    for instance, workflow in workflows.items():
        connection.send("POST", workflows_path(namespace), labelled(workflow, instance, scheduler))


def wait_for_all(
    connection: Connection, namespace: str, count: int, within_s: float, tell: Callable[[int], None]
) -> None:
    """Wait until so many workflows are over; `tell` hears whenever one more is.

    Raises:
        ComponentFailed: They were not, in time.
    """
    seen = 0

    def look() -> bool:
        nonlocal seen
        ended = len(connection.metadata(f"{workflows_path(namespace)}?labelSelector={COMPLETED}"))
        if ended != seen:
            seen = ended
            tell(ended)
        return ended >= count

    try:
        wait_for(f"{count} workflows are over", look, within_s, longest_pause_s=LOOK_EVERY_S)
    except ComponentFailed as late:
        raise ComponentFailed(f"{late}: {seen} are") from late


def ended_workflows(connection: Connection, namespace: str) -> list[EndedWorkflow]:
    """What became of the workflows of a namespace, in the order of their instances."""
    found = [
        EndedWorkflow(
            instance=item["metadata"]["labels"][INSTANCE],
            name=item["metadata"]["name"],
            phase=item["status"]["phase"],
            created_s=instant(item["metadata"]["creationTimestamp"]),
            finished_s=instant(item["status"]["finishedAt"]),
        )
        for item in connection.get(workflows_path(namespace))["items"]
    ]
    return sorted(found, key=lambda workflow: workflow.instance)


def ended_pods(connection: Connection, namespace: str) -> list[EndedPod]:
    """The pods of a namespace that ran to their end, as they are there now."""
    listed = connection.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in map(_ended_pod, listed) if pod is not None]


def _ended_pod(item: Json) -> EndedPod | None:
    ends = {
        status["name"]: cast("Mapping[str, Any]", status["state"].get("terminated") or {})
        for status in item["status"].get("containerStatuses", [])
    }
    main = ends.get("main") or {}
    bound = [each for each in item["status"]["conditions"] if each["type"] == "PodScheduled"]
    if not main.get("startedAt"):
        return None
    return EndedPod(
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        uid=item["metadata"]["uid"],
        scheduler=item["spec"]["schedulerName"],
        node=item["spec"]["nodeName"],
        created_s=instant(item["metadata"]["creationTimestamp"]),
        bound_s=instant(bound[0]["lastTransitionTime"]),
        started_s=instant(main["startedAt"]),
        finished_s=instant(main["finishedAt"]),
    )


def remove_all(connection: Connection, namespace: str, within_s: float = 300.0) -> None:
    """Delete all workflows of a namespace and wait until their pods are gone too.

    Raises:
        ComponentFailed: They were not, in time.
    """
    connection.send("DELETE", workflows_path(namespace))
    connection.send("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    pods = f"/api/v1/namespaces/{namespace}/pods?limit=1"
    wait_for("no pod is left", lambda: not connection.metadata(pods), within_s)


def instant(text: str) -> float:
    """A time of the API, in seconds since the epoch."""
    return dt.datetime.fromisoformat(text).timestamp()
