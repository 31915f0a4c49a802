"""A GPU cluster whose arrivals jump 17-fold for a quarter of an hour: its nodes, its pods, and what is known.

Nodes and pods are those of the openb trace (Alibaba, cluster-trace-gpu-v2023): every fourth of the 1,213 GPU
nodes, and of the list in which several GPUs at once make up 20 % of what is asked for the pods that were
scheduled: shares of a GPU, whole ones, 2, 4 and 8, or none. How long a pod ran, and when, is in the default
list; of the 172 pods that this list has beside it, it is not, and they take the times of the pods there that
asked for as many GPUs, in turn. The pods are cut at their median creation: those created and gone before are
history, those created later are drawn from, with replacement, by seed.

The rate follows from the cluster. If every pod got its room at once, the mean GPU asked for at the end of the
burst would be `PEAK` of all there is: there is room for everything, as far as it is in one piece. With rate λ
and d the time that a pod asking for g GPUs runs, Little's law makes that λ (E[g d] + 16 E[g min(d, burst)]).
What such a stream would have left before runs when the simulation begins: pods drawn in proportion to d, each
somewhere in its life (M/G/∞), until they ask for as many GPUs as such a stream leaves in the mean, so that no
seed begins fuller than another; the largest are placed first. So 68 % of the GPUs are taken before the burst,
most of them by pods that stay for hours and days, and the burst adds 32 %.

Schedulers are told what history tells: the median run time of earlier pods with the same requests; with fewer
than `ENOUGH` of them, of those with the same GPU request; else of all. How long a pod really runs nobody is
told.

Observed are all pods that arrive, until an hour after the burst. The delay of a pod is the time from its
creation to its binding; of one that is not bound by then, the time that it has waited.
"""

import gzip
import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import polars as pl

from stowplan.core.domain import GpuRequest, PodShape, Task, Workflow
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.workloads import Submission, Workload, load_workload
from stowplan.simulate.workloads.arrivals import Burst

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parents[3] / "shared" / "data"))
TIMED: Final = DATA / "openb" / "openb_pod_list_default.csv.gz"
PODS: Final = DATA / "openb" / "openb_pod_list_multigpu20.csv.gz"
NODES: Final = DATA / "openb" / "openb_node_list_gpu_node.csv.gz"
NODE_STRIDE: Final = 4
FACTOR: Final = 17.0
PEAK: Final = 1.0
WARM_UP_S: Final = 1800.0
BURST_S: Final = 900.0
END_S: Final = WARM_UP_S + BURST_S + 3600.0
ENOUGH: Final = 5
STANDING, ARRIVING = "standing", "arriving"
"""Families of the pods that run when the simulation begins, and of those that arrive."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods that are drawn from, and the history before them.

    Attributes:
        drawn: what arrives, with true run times, and expected ones from history.
        run_s: true run time of each, seconds, shape (pods,).
        gpus: GPUs that each asks for, shape (pods,).
        history: how often each shape occurred before.
    """

    drawn: tuple[Task, ...]
    run_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    gpus: np.ndarray[tuple[int], np.dtype[np.float64]]
    history: Mapping[PodShape, float]


def gpus_of(shape: PodShape) -> float:
    """Return how many GPUs a pod asks for, as a real number."""
    return shape.gpu.count * shape.gpu.milli / 1000 if shape.gpu is not None else 0.0


@cache
def cluster() -> Cluster:
    """Every fourth GPU node of the trace.

    Raises:
        InvalidFile: the public data are not there.
    """
    whole = load_cluster(NODES)
    return replace(whole, name="openb-quarter", nodes=whole.nodes[::NODE_STRIDE])


def gpu_count() -> int:
    """Return the GPUs of the cluster."""
    return sum(len(node.hardware.gpus) for node in cluster().nodes)


@cache
def pods() -> Pods:
    """The pods to be drawn, and what those before them tell.

    Raises:
        InvalidFile: the public data are not there.
    """
    lived = sorted(_lived(), key=lambda pod: (pod.created_s, pod.task.name))
    cut_s = lived[len(lived) // 2].created_s
    earlier = [pod.task for pod in lived if pod.created_s + pod.task.work.alone_s <= cut_s]
    later = [pod.task for pod in lived if pod.created_s >= cut_s]
    told = _Told(earlier)
    return Pods(
        tuple(replace(task, expected_s=told.expected_s(task)) for task in later),
        np.array([task.work.alone_s for task in later]),
        np.array([gpus_of(task.shape) for task in later]),
        Counter(task.shape for task in earlier),
    )


@dataclass(frozen=True, slots=True)
class _Pod:
    created_s: float
    task: Task


def _lived() -> list[_Pod]:
    """Return the pods of the list that were scheduled, each with when it was created and how long it ran."""
    with gzip.open(TIMED, "rt", encoding="utf-8") as file:
        table = pl.read_csv(StringIO(file.read()))
    was_scheduled = set(table.filter(pl.col("scheduled_time").is_not_null())["name"])
    timed = [s for s in load_workload(TIMED).submissions if s.workflow.name in was_scheduled]
    lived = [_Pod(s.time_s, replace(s.workflow.tasks[0], name=s.workflow.name)) for s in timed]
    known = set(table["name"])
    like: defaultdict[float, list[_Pod]] = defaultdict(list)
    for pod in lived:
        like[gpus_of(pod.task.shape)].append(pod)
    taken: Counter[float] = Counter()
    for submission in load_workload(PODS).submissions:
        if submission.workflow.name not in known:
            task = submission.workflow.tasks[0]
            gpus = gpus_of(task.shape)
            twin = like[gpus][taken[gpus] % len(like[gpus])]
            taken[gpus] += 1
            phases = tuple(replace(phase, work_s=twin.task.work.alone_s) for phase in task.work.phases)
            work = replace(task.work, phases=phases)
            lived.append(_Pod(twin.created_s, replace(task, name=submission.workflow.name, work=work)))
    return lived


class _Told:
    """What the run times of earlier pods tell of one to come."""

    def __init__(self, earlier: list[Task]) -> None:
        self._by_shape: defaultdict[PodShape, list[float]] = defaultdict(list)
        self._by_gpu: defaultdict[GpuRequest | None, list[float]] = defaultdict(list)
        for task in earlier:
            self._by_shape[task.shape].append(task.work.alone_s)
            self._by_gpu[task.shape.gpu].append(task.work.alone_s)
        self._all_s = median(task.work.alone_s for task in earlier)

    def expected_s(self, task: Task) -> float:
        for seen in (self._by_shape.get(task.shape), self._by_gpu.get(task.shape.gpu)):
            if seen is not None and len(seen) >= ENOUGH:
                return median(seen)
        return self._all_s


def rate_per_s(peak: float = PEAK) -> float:
    """Arrivals a second outside the burst, so that `peak` of the GPUs are asked for at its end."""
    seen = pods()
    stands = float((seen.gpus * seen.run_s).mean())
    added = (FACTOR - 1.0) * float((seen.gpus * np.minimum(seen.run_s, BURST_S)).mean())
    return peak * gpu_count() / (stands + added)


def workload(seed: int, peak: float = PEAK) -> Workload:
    """What stands there at time 0, and what arrives after it until `END_S`, drawn by `seed`."""
    rng, seen, rate = np.random.default_rng(seed), pods(), rate_per_s(peak)
    standing: list[Task] = []
    to_stand = rate * float((seen.gpus * seen.run_s).mean())
    while to_stand > 0.0:
        chosen = int(rng.choice(len(seen.drawn), p=seen.run_s / seen.run_s.sum()))
        standing.append(_in_its_life(seen.drawn[chosen], float(rng.uniform())))
        to_stand -= seen.gpus[chosen]
    standing.sort(key=lambda task: -gpus_of(task.shape))
    arrivals = Burst(1.0 / rate, WARM_UP_S, BURST_S, FACTOR)
    most = int(2.0 * rate * (END_S + FACTOR * BURST_S))
    times_s = [time_s for time_s in arrivals.times_s([0.0] * most, rng).tolist() if time_s < END_S]
    indexes: list[int] = rng.integers(len(seen.drawn), size=len(times_s)).tolist()
    arriving = [seen.drawn[index] for index in indexes]
    submissions = [
        Submission(0.0, Workflow(f"standing-{number:05}", (replace(task, name="pod"),), family=STANDING))
        for number, task in enumerate(standing)
    ]
    submissions += [
        Submission(time_s, Workflow(f"pod-{number:05}", (replace(task, name="pod"),), family=ARRIVING))
        for number, (time_s, task) in enumerate(zip(times_s, arriving, strict=True))
    ]
    return Workload(f"burst-{seed}", tuple(submissions), source="openb")


def _in_its_life(task: Task, left: float) -> Task:
    """Return a task of which the share `left` is still to run; schedulers are told as of a new one."""
    phases = tuple(replace(phase, work_s=left * phase.work_s) for phase in task.work.phases)
    return replace(task, work=replace(task.work, phases=phases))
