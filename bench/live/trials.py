"""One batch of workflows under one scheduler, start to end, and all that is to be known of it afterwards."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from statistics import fmean

from stowplan.observe.history import HistoryStore
from testbed import api, argo
from testbed.argo import batch
from testbed.argo.batch import EndedPod, EndedWorkflow
from testbed.bulk import Connection
from testbed.cluster import Cluster
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.stowplan import Scheduler, grant

KUBE_SCHEDULER = "kube-scheduler"
STOWPLAN = "stowplan"
NAMES = {KUBE_SCHEDULER: "default-scheduler", STOWPLAN: "stowplan"}  # by which pods ask for them
SETTLING_S = 3.0  # until controllers are through with what went before
DRAINED_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What was expected of a pod when it was placed, and how long it took, in seconds."""

    expected_s: float
    source: str
    real_s: float

    @property
    def error(self) -> float:
        """By how much it was wrong, of the real time."""
        return abs(self.expected_s - self.real_s) / self.real_s


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A batch that ran to its end.

    Attributes:
        scheduler: Whose it was.
        began_s: When the first workflow was submitted, seconds since the epoch.
        workflows: All of them.
        pods: All of theirs.
        bound: Pods that the scheduler has bound, by its own count (only Stowplan is asked).
        explained: Pods of which the scheduler can tell why they are on the node that they are on.
        recorded: Pods whose run is in the history from start to end.
        foretold: For each pod whose duration was foretold, how well.
    """

    scheduler: str
    began_s: float
    workflows: tuple[EndedWorkflow, ...]
    pods: tuple[EndedPod, ...]
    bound: int = 0
    explained: int = 0
    recorded: int = 0
    foretold: tuple[Foretold, ...] = ()

    @property
    def completions_s(self) -> dict[str, float]:
        """From the beginning of the batch to the end of each workflow, by instance."""
        return {workflow.instance: workflow.finished_s - self.began_s for workflow in self.workflows}

    @property
    def mean_completion_s(self) -> float:
        """The mean of those."""
        return fmean(self.completions_s.values())

    @property
    def makespan_s(self) -> float:
        """Until the last of them ended."""
        return max(self.completions_s.values())


def check(trial: Trial, count: int) -> None:
    """Make sure that all workflows succeeded and all pods were the scheduler's.

    Raises:
        ComponentFailed: Not so; the message names one that is wrong.
    """
    wrong = [f"{each.name} is {each.phase}" for each in trial.workflows if each.phase != "Succeeded"]
    wrong += [
        f"pod {pod.name} is of {pod.scheduler}"
        for pod in trial.pods
        if pod.scheduler != NAMES[trial.scheduler]
    ]
    if len(trial.workflows) != count:
        wrong.append(f"{len(trial.workflows)} workflows are there, not {count}")
    if wrong:
        raise ComponentFailed(f"{len(wrong)} things are wrong after a batch; the first: {wrong[0]}")


@contextmanager
def kube_scheduler(cluster: Cluster) -> Generator[None]:
    """kube-scheduler with its own defaults runs in the block, its client's rate raised."""
    cluster.plane.start_scheduler({})
    yield
    cluster.daemons.end(KUBE_SCHEDULER)


@contextmanager
def stowplan(cluster: Cluster, config: Mapping[str, Json]) -> Generator[Scheduler]:
    """Stowplan runs in the block, in binder mode, and ends as SIGTERM makes it."""
    grant(cluster.client, "binder")
    ours = {"mode": "binder", "name": NAMES[STOWPLAN]}
    scheduler = Scheduler(cluster.plane, {**config, "scheduler": ours | dict(config.get("scheduler", {}))})
    scheduler.start()
    scheduler.wait_ready()
    yield scheduler
    scheduler.end(DRAINED_S)


@dataclass
class Bed:
    """A running cluster on which batches run one after the other, each in a namespace of its own."""

    cluster: Cluster
    longest_s: float = 900.0
    tell: Callable[[str], None] = print

    def run(
        self, scheduler: str, name: str, workflows: Mapping[str, Json], runs: AbstractContextManager[object]
    ) -> Trial:
        """Submit workflows while a scheduler runs, wait for their end and take them away.

        Args:
            scheduler: Its name here.
            name: Of the batch, and of its namespace.
            workflows: By instance.
            runs: The scheduler runs in its block.
        """
        api.make_namespace(self.cluster.client, name)
        argo.prepare_namespace(self.cluster.client, name)
        with Connection(self.cluster.plane) as connection:
            with runs as process:
                time.sleep(SETTLING_S)
                began_s = time.time()
                batch.submit_all(connection, name, workflows, NAMES[scheduler])
                batch.wait_for_all(
                    connection,
                    name,
                    len(workflows),
                    self.longest_s,
                    lambda ended: self.tell(f"{name}: {ended} after {time.time() - began_s:.0f} s"),
                )
                pods = batch.ended_pods(connection, name)
                bound = explained = 0
                if isinstance(process, Scheduler):
                    bound = round(process.metric("stowplan_schedule_attempts_total", result="scheduled"))
                    explained = explained_pods(process, pods)
            ended = batch.ended_workflows(connection, name)
            batch.remove_all(connection, name)
        trial = Trial(
            scheduler=scheduler,
            began_s=began_s,
            workflows=tuple(ended),
            pods=tuple(pods),
            bound=bound,
            explained=explained,
        )
        check(trial, len(workflows))
        return trial


def explained_pods(scheduler: Scheduler, pods: Sequence[EndedPod]) -> int:
    """Of how many pods the scheduler tells the node that they really are on, and why."""
    return sum(scheduler.get(f"/v1/pods/{pod.namespace}/{pod.name}")[0] == 200 for pod in pods)


def with_history(trial: Trial, url: str) -> Trial:
    """The trial with what the history holds of its pods, read when its scheduler has ended."""
    store = HistoryStore.open(url)
    recorded = 0
    foretold: list[Foretold] = []
    try:
        for pod in trial.pods:
            run = store.execution(pod.uid)
            if run is None or run.started_s is None or run.finished_s is None:
                continue
            recorded += run.node == pod.node
            took_s = run.finished_s - run.started_s
            if run.expected_s is not None and took_s > 0.0:
                foretold.append(
                    Foretold(expected_s=run.expected_s, source=run.expected_source or "", real_s=took_s)
                )
    finally:
        store.close()
    return replace(trial, recorded=recorded, foretold=tuple(foretold))
