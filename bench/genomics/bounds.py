"""What no scheduler can beat: lower bounds of mean and 95th percentile of completion, proven per seed.

* **Path.** No task is faster than alone on an idle node of the kind that suits it best, with everything that
  the
  node has when nothing drifted: neighbours only raise memory's latency and take shares, and drift only takes
  away. So a workflow takes at least its longest path of such times. Completions that are each at least as
  long have percentiles at least as high.
* **Area.** A task holds the cores that it requests of a node of kind k for at least its time t_k alone there.
  With any prices y_k ≥ 0 of a core-second of each kind, a task costs at least request × min_k(y_k t_k), and
  all nodes together earn at most Σ y_k × cores_k a second. So no schedule completes a workflow before one
  pooled machine could that serves nothing but these costs, and on it shortest remaining processing time first
  has the least sum of completions (L. Schrage, Operations Research 16(3), 1968). The prices are sought for a
  high bound; every choice is valid.
* **Both.** Workflows may be parted: some count by their path, the pooled machine serves the others alone.

The page cache saves no reads in the simulator and disks here have no burst, so none of the two can help.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, WorkProfile
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.policy.demand import capacity_of, task_demand
from stowplan.core.policy.prediction import NodeBatch, predicted_rates
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.workloads import Workload

ROUNDS: Final = 40
"""Of the search for prices."""
TOLERANCE: Final = 1e-8
"""Of the memory load at which rates are solved; times are rounded down by more than it can move them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds in seconds, and what the mean's would be by one argument alone."""

    mean_s: float
    p95_s: float
    mean_by_path_s: float
    mean_by_area_s: float


@dataclass(frozen=True, slots=True)
class _Kind:
    machine_type: str
    capacity: tuple[float, ...]


class LowerBounds:
    """Bounds of a workload on a cluster, for any arrivals; W workflows, K kinds of node."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        """Take every task's time on every kind of node, and seek prices."""
        kinds: dict[_Kind, float] = {}
        for node in cluster.nodes:
            kind = _Kind(node.hardware.machine_type, tuple(capacity_of(node)))
            kinds[kind] = kinds.get(kind, 0.0) + node.allocatable[CPU] / 1000
        cores = np.array(list(kinds.values()))
        tasks = [task for submission in workload.submissions for task in submission.workflow.tasks]
        place_of: dict[WorkProfile, int] = {}
        places = [place_of.setdefault(task.work, len(place_of)) for task in tasks]
        times_s = least_s(list(place_of), list(kinds))[places]
        sizes = np.array([len(submission.workflow) for submission in workload.submissions], dtype=np.int64)
        ends: NDArray[np.int64] = np.cumsum(sizes)
        fastest_s = np.split(times_s.min(axis=1), ends[:-1])
        held = np.array([task.shape.requests[CPU] / 1000 for task in tasks])[:, None] * times_s
        prices = _prices(held, cores)
        self.paths_s = np.array(
            [
                float(submission.workflow.upward_ranks(own_s.tolist()).max())
                for submission, own_s in zip(workload.submissions, fastest_s, strict=True)
            ]
        )
        """(W,) longest path."""
        self.work_s = np.add.reduceat((held * prices).min(axis=1), ends - sizes)
        """(W,) seconds that the pooled machine is busy with each."""
        self.work_s /= float((cores * prices).sum())

    def of(self, arrivals_s: Sequence[float]) -> Bounds:
        """Return the bounds when the workflows arrive at `arrivals_s`, in their order."""
        arrive_s, paths_s = np.array(arrivals_s), self.paths_s
        area_s = _srpt_s(arrive_s, self.work_s)
        best = max(float(paths_s.mean()), float(area_s.mean()))
        by_path = np.argsort(area_s - paths_s, kind="stable")  # those first whose path tells most
        for count in range(1, len(arrive_s)):
            rest = np.sort(by_path[count:])
            served_s = _srpt_s(arrive_s[rest], self.work_s[rest])
            total_s = float(paths_s[by_path[:count]].sum() + served_s.sum())
            best = max(best, total_s / len(arrive_s))
        return Bounds(best, float(np.percentile(paths_s, 95)), float(paths_s.mean()), float(area_s.mean()))


def least_s(works: Sequence[WorkProfile], kinds: Sequence[_Kind]) -> Floats:
    """Return the seconds that each task takes alone on an idle node of each kind, (works, kinds)."""
    phases = [(row, phase) for row, work in enumerate(works) for phase in work.phases if phase.work_s > 0.0]
    rows = np.array([row for row, _ in phases])
    lengths_s = np.array([phase.work_s for _, phase in phases])
    demands = [task_demand(WorkProfile((phase,)), 1.0) for _, phase in phases]
    per_s = np.stack([demand.per_s for demand in demands])[:, None]
    cores = per_s[:, 0, Resource.CPU]
    limits = np.array([math.inf if work.cpu_limit_cores is None else work.cpu_limit_cores for work in works])
    quota = np.minimum(1.0, limits[rows] / np.maximum(cores, 1e-30))
    found = np.zeros((len(works), len(kinds)))
    for column, kind in enumerate(kinds):
        factors = [dict(work.machine_factors).get(kind.machine_type, 1.0) for work in works]
        factor = np.array(factors)[rows]
        demand = per_s.copy()
        demand[:, 0, Resource.CPU] = cores * factor
        alone = NodeBatch(
            demand=demand,
            weight=np.ones_like(demand),
            capacity=np.tile(np.array(kind.capacity), (len(phases), 1)),
            alone=(quota / factor)[:, None],
            exposed=np.array([[phase.latency_share] for _, phase in phases]),
        )
        rates = predicted_rates(alone, PhysicsLaws(), tolerance=TOLERANCE)[:, 0]
        found[:, column] = np.bincount(rows, weights=lengths_s / rates, minlength=len(works))
    return found * (1.0 - 10.0 * TOLERANCE)


def _prices(held: Floats, cores: Floats) -> Floats:
    """Return prices by kind under which all tasks together cost much of what the nodes earn in a second."""

    def worth(prices: Floats) -> float:
        return float((held * prices).min(axis=1).sum() / (cores * prices).sum())

    prices = held.sum() / held.sum(axis=0)
    best, step = worth(prices), 0.2
    for _ in range(ROUNDS):
        before = best
        for kind in range(len(prices)):
            for factor in (1.0 + step, 1.0 / (1.0 + step)):
                tried = prices.copy()
                tried[kind] *= factor
                if (found := worth(tried)) > best:
                    best, prices = found, tried
        if best == before:
            step /= 2.0
    return prices


def _srpt_s(arrive_s: Floats, work_s: Floats) -> Floats:
    """Return the time from arrival to completion of each job on one machine, the least work left first."""
    flow_s = np.zeros(len(arrive_s))
    order = np.argsort(arrive_s, kind="stable").tolist()
    queue: list[tuple[float, int]] = []
    now_s = 0.0
    for place, job in enumerate(order):
        now_s = max(now_s, float(arrive_s[job]))
        heappush(queue, (float(work_s[job]), job))
        until_s = float(arrive_s[order[place + 1]]) if place + 1 < len(order) else np.inf
        while queue and now_s < until_s:
            left_s, first = heappop(queue)
            if now_s + left_s > until_s:
                heappush(queue, (left_s - (until_s - now_s), first))
                now_s = until_s
                break
            now_s += left_s
            flow_s[first] = now_s - arrive_s[first]
    return flow_s
