"""Pods of tests on real nodes: short manifests, what becomes of them, their output; kubectl."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lightkube import Client
from lightkube.codecs import from_dict
from lightkube.models.core_v1 import ContainerStateTerminated, ContainerStatus
from lightkube.resources.core_v1 import Pod

from testbed.errors import ComponentFailed
from testbed.images import image_name
from testbed.programs import program_path
from testbed.site import Site
from testbed.spec import Json
from testbed.waiting import wait_for

CONTAINER = "main"
FOR_EVER = ("sleep", "1000000")


def pod(
    namespace: str,
    name: str,
    command: Sequence[str] = FOR_EVER,
    *,
    node: str | None = None,
    image: str = "busybox",
    limits: Mapping[str, str] | None = None,
    **spec: Any,  # noqa: ANN401 - fields of a manifest
) -> Json:
    """A manifest of a pod with one container, which is not started again and is killed at once when deleted.

    Args:
        namespace: Its namespace.
        name: Its name.
        command: What its container runs.
        node: The node that it is bound to, past the scheduler; None leaves it to the scheduler.
        image: An image of the catalogue.
        limits: Its container's limits, which are its requests too.
        **spec: Fields of the pod's spec, laid over ours.
    """
    container: Json = {
        "name": CONTAINER,
        "image": image_name(image),
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": {"limits": dict(limits or {})},
    }
    fields: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    if node is not None:
        fields["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": fields | spec,
    }


def create(client: Client, manifest: Json) -> None:
    """Create a pod.

    Raises:
        ApiError: The API server refused it.
    """
    client.create(from_dict(manifest))


def wait_until(
    client: Client, namespace: str, name: str, holds: Callable[[Pod], object], within_s: float = 30.0
) -> Pod:
    """Wait until something holds of a pod, and return the pod as it was then.

    Raises:
        ComponentFailed: It did not hold in time; the message has the pod's status.
    """
    seen: list[Pod] = []

    def look() -> bool:
        seen[:] = [client.get(Pod, name, namespace=namespace)]
        return bool(holds(seen[0]))

    try:
        wait_for(f"pod {namespace}/{name}", look, within_s)
    except ComponentFailed as late:
        status = seen[0].status
        raise ComponentFailed(f"{late}: {json.dumps(status.to_dict() if status else {})}") from late
    return seen[0]


def is_running(pod: Pod) -> bool:
    """Whether the pod's phase is Running."""
    return pod.status is not None and pod.status.phase == "Running"


def is_over(pod: Pod) -> bool:
    """Whether all containers of the pod ended for good."""
    return pod.status is not None and pod.status.phase in {"Succeeded", "Failed"}


def container(pod: Pod) -> ContainerStatus:
    """The status of the pod's only container.

    Raises:
        ComponentFailed: The kubelet has not reported any.
    """
    statuses = (pod.status and pod.status.containerStatuses) or []
    if len(statuses) != 1:
        raise ComponentFailed(f"the pod has {len(statuses)} container statuses, not one")
    return statuses[0]


def termination(pod: Pod) -> ContainerStateTerminated:
    """How the pod's only container ended.

    Raises:
        ComponentFailed: It has not ended.
    """
    state = container(pod).state
    if state is None or state.terminated is None:
        raise ComponentFailed(f"the container has not ended: {state}")
    return state.terminated


def run(client: Client, site: Site, manifest: Json, within_s: float = 60.0) -> tuple[Pod, str]:
    """Run a pod to its end; returns it with its output.

    Raises:
        ComponentFailed: It did not end in time.
    """
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    create(client, manifest)
    ended = wait_until(client, namespace, name, is_over, within_s)
    return ended, kubectl(site, "logs", f"--namespace={namespace}", name)


def kubectl(site: Site, *arguments: str) -> str:
    """What kubectl prints, with all rights in the cluster.

    Raises:
        ComponentFailed: It failed; the message is its own.
    """
    done = subprocess.run(
        [program_path("kubectl"), f"--kubeconfig={site.kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentFailed(f"kubectl {' '.join(arguments)}: {' '.join(done.stderr.split())}")
    return done.stdout


def execute(site: Site, namespace: str, name: str, *command: str) -> str:
    """What a command prints that runs inside a pod.

    Raises:
        ComponentFailed: It failed, or the pod could not be reached.
    """
    return kubectl(site, "exec", f"--namespace={namespace}", name, "--", *command)
