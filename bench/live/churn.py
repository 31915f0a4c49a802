"""Pods that come, run and go, wave after wave, while the memory of the scheduler's process is watched.

A wave has pods of workflows and pods of none, of a few sizes, each with a label of its own as real ones have.
Their names are drawn, as for whatever runs again and again: new pods, but no new kinds of work. A few ask for
more than any node has, so that they wait in vain until they are deleted. When all others have ended the whole
wave is deleted, and the memory is read when nothing of it is left: always at the same point, with the same
nothing held.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stowplan.kube.argo.names import node_id, pod_name
from testbed import bulk, kwok
from testbed.argo import batch
from testbed.bulk import Connection
from testbed.cluster import Cluster
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.waiting import wait_for

TASKS = 50  # of a workflow: a root, and what depends on it
IN_VAIN = 0.01  # the share of pods that no node can take
RUNNING_S = (0.2, 0.5, 1.0)
LONGEST_WAVE_S = 300.0
MIB = 1 << 20
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
LABEL = "workflows.argoproj.io/"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a process holds, in bytes: resident pages, and its share of those that others have too."""

    resident: int
    proportional: int


def memory_of(pid: int) -> Memory:
    """The memory of a process now."""
    fields = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    }
    return Memory(resident=fields["Rss"], proportional=fields["Pss"])


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The memory after so many pods of one life of the process, and when it was read."""

    life: int
    pods: int
    at_s: float
    memory: Memory


def slope_bytes(samples: Sequence[Sample], of: str, warm_up: int) -> float:
    """By how many bytes the memory grows per pod: least squares, each life with a level of its own.

    Args:
        samples: At least three of a life that is to count.
        of: A field of `Memory`.
        warm_up: Samples up to so many pods of a life are left out.

    Raises:
        ValueError: Too few samples are left.
    """
    products = squares = 0.0
    kept = 0
    for life in {sample.life for sample in samples}:
        own = [sample for sample in samples if sample.life == life and sample.pods > warm_up]
        if len(own) < 3:
            continue
        pods = np.array([sample.pods for sample in own], dtype=np.float64)
        held = np.array([getattr(sample.memory, of) for sample in own], dtype=np.float64)
        products += float(((pods - pods.mean()) * (held - held.mean())).sum())
        squares += float(((pods - pods.mean()) ** 2).sum())
        kept += len(own)
    if not kept:
        raise ValueError(f"{len(samples)} samples leave no life with three after {warm_up} pods; run longer")
    return products / squares


@dataclass
class Churn:
    """Waves of pods in one namespace of a cluster with fake nodes.

    Attributes:
        cluster: With Argo's definitions, but no controller that would look at the workflows.
        namespace: For these pods only.
        scheduler_name: Whom pods ask for.
        size: Pods of a wave.
    """

    cluster: Cluster
    namespace: str
    scheduler_name: str
    size: int
    _made: int = field(default=0)

    def wave(self) -> int:
        """Run one wave to its end; returns how many pods it had.

        Raises:
            ComponentFailed: Its pods did not all end, or did not all go.
        """
        self._made += 1
        pods = list(self._pods())
        in_vain = max(1, round(self.size * IN_VAIN))
        with Connection(self.cluster.plane) as connection:
            for workflow in self._workflows():
                connection.send("POST", batch.workflows_path(self.namespace), workflow)
        bulk.create_pods(self.cluster.plane, self.namespace, pods)
        with Connection(self.cluster.plane) as connection:
            listed = f"/api/v1/namespaces/{self.namespace}/pods?limit=1"
            ended = f"{listed}&fieldSelector=status.phase%21%3DSucceeded"
            self._wait(connection, "all pods but those in vain have ended", ended, in_vain)
            connection.send("DELETE", batch.workflows_path(self.namespace))
            bulk.delete_pods(connection, self.namespace)
            self._wait(connection, "no pod is left", listed, 0)
        return len(pods)

    def _wait(self, connection: Connection, what: str, path: str, wanted: int) -> None:
        def look() -> bool:
            return _count(connection, path, wanted) <= wanted

        wait_for(f"wave {self._made}: {what}", look, LONGEST_WAVE_S)

    def _workflows(self) -> list[Json]:
        return [self._workflow(number) for number in range(self.size // 2 // TASKS)]

    def _workflow_name(self, number: int) -> str:
        return f"{self._origin(number)}{drawn(self._made * self.size + number)}"

    def _origin(self, number: int) -> str:
        return f"churn-{number}-"

    def _workflow(self, number: int) -> Json:
        tasks = [
            {"name": f"task-{index}", "template": "work", **({"dependencies": ["task-0"]} if index else {})}
            for index in range(TASKS)
        ]
        container = {"image": "work", "command": ["work"]}
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": self._workflow_name(number), "generateName": self._origin(number)},
            "spec": {
                "entrypoint": "main",
                "templates": [
                    {"name": "main", "dag": {"tasks": tasks}},
                    {"name": "work", "container": container},
                ],
            },
        }

    def _pods(self) -> Iterator[Json]:
        in_vain = max(1, round(self.size * IN_VAIN))
        of_workflows = self.size // 2 // TASKS * TASKS
        for index in range(self.size):
            cpu = "1000" if index >= self.size - in_vain else f"{100 + 50 * (index % 4)}m"
            script = kwok.PodScript(duration_s=RUNNING_S[index % len(RUNNING_S)])
            metadata: Json = {
                "name": f"batch-{index % 10}-{drawn(self._made * self.size + index)}",
                "labels": {"app": f"churn-{index % 10}", "run": f"{self._made}-{index}"},
                "annotations": script.annotations(),
            }
            if index < of_workflows:
                self._place(metadata, *divmod(index, TASKS))
            yield {
                "metadata": metadata,
                "spec": {
                    "schedulerName": self.scheduler_name,
                    "restartPolicy": "Never",
                    "tolerations": [kwok.TOLERATION],
                    "containers": [
                        {
                            "name": "main",
                            "image": "work",
                            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
                        }
                    ],
                },
            }

    def _place(self, metadata: Json, number: int, task: int) -> None:
        """Make a pod one of a task of a workflow, as Argo's controller does."""
        workflow = self._workflow_name(number)
        node = f"{workflow}.task-{task}"
        metadata["name"] = pod_name(workflow, node, "work")
        metadata["labels"] |= {f"{LABEL}workflow": workflow, f"{LABEL}completed": "false"}
        metadata["annotations"] |= {
            f"{LABEL}node-name": node,
            f"{LABEL}node-id": node_id(workflow, node),
            "kubectl.kubernetes.io/default-container": "main",
        }


def drawn(number: int) -> str:
    """Five characters as Kubernetes draws them for the end of a name, another for each number."""
    letters: list[str] = []
    for _ in range(5):
        number, index = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[index])
    return "".join(letters)


def _count(connection: Connection, path: str, enough: int) -> int:
    """How many objects a list has; it is read in pieces of `enough` and one more, so that it stays small."""
    return len(connection.metadata(path.replace("limit=1", f"limit={enough + 1}")))


def sample(cluster: Cluster, process: str, life: int, pods: int) -> Sample:
    """Read the memory of a process of the cluster.

    Raises:
        ComponentFailed: It ended.
    """
    daemon = cluster.daemons.running.get(process)
    if daemon is None:
        raise ComponentFailed(f"no process {process} runs")
    daemon.check()
    return Sample(life=life, pods=pods, at_s=time.time(), memory=memory_of(daemon.pid))
