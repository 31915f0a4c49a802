"""What runs where: carries placements over to the kernel and ends back to the cluster state.

Placing a batch costs a few gathers from the table of demands and one call of the kernel; ending a task costs
a few dictionary operations. What happened is kept in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.decoder import Placed
from stowplan.core.domain import PendingTask, PodRemoved, RunningTask
from stowplan.errors import InternalError
from stowplan.simulate.book import TaskBook
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.demands import Demands, gpu_share, profiles_of
from stowplan.simulate.gangs import Gangs
from stowplan.simulate.kernel import TaskStarts
from stowplan.simulate.ledger import AttemptStatus, Ledger
from stowplan.simulate.muster import Muster
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.site import Site

__all__ = ["Floor"]


class Floor:
    """The running attempts.

    Attributes:
        running: per task key, what the scheduler knows of a placed task.
        attempt_of: per kernel id of a task that has not ended there, its attempt.
        demands: start parameters by task id.
        ledger: all attempts so far.
        gangs: those that run.
    """

    def __init__(self, cluster: Cluster, site: Site, book: TaskBook, options: SimulationOptions) -> None:
        """Give the kernel the profiles of all tasks.

        Raises:
            InvalidInput: a demand that the kernel cannot take.
        """
        self.running: dict[str, RunningTask] = {}
        self.attempt_of: dict[int, int] = {}
        self.ledger = Ledger()
        self.demands = Demands(book.tasks, site.machines.machine_types)
        self._site = site
        self._book = book
        self._startup_s = options.binding_s + options.pod_startup_s
        self._start_interval_s = options.pod_start_interval_s
        self._free_to_start_s: list[float] = [-math.inf] * len(site.nodes)
        self._last_attempt = [-1] * len(book.tasks)
        self.gangs = Gangs(site.kernel, site.machines, contention=site.contention)
        self._muster = Muster(cluster, site, self.gangs)
        works = [(task.work, gpu_share(task)) for task in book.tasks]
        distinct = list(dict.fromkeys(works))
        profiles = profiles_of(distinct, leaves_rack=site.machines.has_rack_links)
        id_of = dict(zip(distinct, site.kernel.add_profiles(profiles).tolist(), strict=True))
        self._profile: NDArray[np.int64] = np.array([id_of[work] for work in works], dtype=np.int64)
        self._works = works
        self._profile_on_root: dict[tuple[int, int], int] = {}

    def start(self, placed: Sequence[tuple[PendingTask, Placed]], now_s: float, delay_s: float) -> None:
        """Start what a cycle placed; the nodes hear of it `delay_s` later than usual."""
        book, demands, site = self._book, self.demands, self._site
        task_ids = [book.id_of[task.key] for task, _ in placed]
        tasks = np.array(task_ids, dtype=np.int64)
        nodes = site.node_of_row[[outcome.row for _, outcome in placed]]
        profiles = self._profile[tasks]
        gpu_mask = np.zeros(len(tasks), dtype=np.int64)
        for position, (_, outcome) in enumerate(placed):
            if outcome.gpus:
                gpu_mask[position] = sum(1 << gpu for gpu in outcome.gpus)
                root = site.machines.root_of_gpu[int(nodes[position])][outcome.gpus[0]]
                if root > 0 and demands.uses_pcie[task_ids[position]]:
                    profiles[position] = self._on_root(task_ids[position], root)
        start_s = self._start_times(nodes, now_s, self._startup_s + delay_s)
        speed = demands.speeds[demands.factor_id[tasks], site.machines.type_of[nodes]]
        drafts = self._muster.gather(placed, nodes, profiles, start_s)
        kernel_ids = site.kernel.start(
            TaskStarts(
                row=nodes,
                profile=profiles,
                start_s=start_s,
                speed=speed,
                cpu_weight=demands.cpu_weight[tasks],
                cpu_limit_cores=demands.cpu_limit_cores[tasks],
                memory_limit_bytes=demands.memory_limit_bytes[tasks],
                memory_request_bytes=demands.memory_request_bytes[tasks],
                gpu_mask=gpu_mask,
            )
        ).tolist()
        attempt = len(self.ledger)
        for (task, outcome), task_id, kernel_id in zip(placed, task_ids, kernel_ids, strict=True):
            self.attempt_of[kernel_id] = self._last_attempt[task_id] = attempt
            self.running[task.key] = RunningTask(
                task, outcome.row, now_s, now_s + outcome.expected_duration_s
            )
            attempt += 1
        self.ledger.open(
            now_s=now_s,
            tasks=task_ids,
            attempts=[book.placed(task_id) for task_id in task_ids],
            nodes=nodes.tolist(),
            kernel_ids=kernel_ids,
            ready_s=[task.ready_s for task, _ in placed],
        )
        self._muster.enlist(drafts, kernel_ids, attempt - len(placed), speed)

    def _start_times(self, nodes: NDArray[np.int64], now_s: float, startup_s: float) -> NDArray[np.float64]:
        """Return when tasks placed now on `nodes` begin to run, NaN: at once; a node starts one at a time."""
        if self._start_interval_s == 0.0:
            return np.full(len(nodes), now_s + startup_s if startup_s > 0.0 else math.nan)
        starts: list[float] = []
        for node in map(int, nodes):
            start_s = max(now_s + startup_s, self._free_to_start_s[node])
            self._free_to_start_s[node] = start_s + self._start_interval_s
            starts.append(start_s)
        return np.array(starts)

    def end(self, attempt: int, time_s: float, status: AttemptStatus) -> int:
        """Note that an attempt ended and give its resources back; return its task id."""
        task_id = self.ledger.task[attempt]
        key = self._book.keys[task_id]
        self.ledger.close(attempt, time_s, status)
        self.gangs.ended(attempt)
        del self.running[key]
        self._site.state.apply(PodRemoved(key))
        return task_id

    def stop(self, attempt: int) -> None:
        """Take a task that has not ended off its machine; `end` must follow."""
        kernel_id = self.ledger.kernel_id[attempt]
        self._site.kernel.stop([kernel_id])
        del self.attempt_of[kernel_id]

    def attempts_on(self, node: int) -> list[int]:
        """Return the attempts bound to a node, oldest first."""
        return [self._last_attempt[self._book.id_of[key]] for key in self._site.keys_on(node)]

    def validate(self, muted: set[int]) -> None:
        """Check that every running task is bound exactly once, and runs in the kernel where it is bound.

        `muted` are attempts that ended in the kernel without anybody hearing of it.

        Raises:
            InternalError: not so; the message names the task.
        """
        state, kernel = self._site.state, self._site.kernel
        if self.running.keys() != state.pods.keys():
            one = min(self.running.keys() ^ state.pods.keys())
            raise InternalError(f"task {one!r} is running or bound, but not both")
        in_kernel = {
            int(kernel_id): node
            for node in range(len(self._site.nodes))
            for kernel_id in kernel.running(node)
        }
        for key in self.running:
            attempt = self._last_attempt[self._book.id_of[key]]
            node = int(self._site.node_of_row[state.pods[key][1]])
            kernel_id = self.ledger.kernel_id[attempt]
            if attempt in muted:
                if kernel_id in in_kernel:
                    raise InternalError(f"task {key!r} ended unheard but still runs")
            elif self.attempt_of.get(kernel_id) != attempt or self.ledger.node[attempt] != node:
                raise InternalError(
                    f"task {key!r} is bound to node {node} but its attempt {attempt} says otherwise"
                )
            elif kernel_id in in_kernel and in_kernel[kernel_id] != node:
                raise InternalError(
                    f"task {key!r} runs on node {in_kernel[kernel_id]} but is bound to {node}"
                )
        if len(self.attempt_of) + len(muted) != len(self.running):
            raise InternalError(
                f"{len(self.attempt_of)} attempts in the kernel, {len(self.running)} tasks running"
            )

    def _on_root(self, task_id: int, root: int) -> int:
        """Return the profile of a task whose GPUs hang off root complex `root`."""
        known = self._profile_on_root.get((int(self._profile[task_id]), root))
        if known is None:
            profiles = profiles_of(
                [self._works[task_id]], leaves_rack=self._site.machines.has_rack_links, root_complex=root
            )
            known = int(self._site.kernel.add_profiles(profiles)[0])
            self._profile_on_root[int(self._profile[task_id]), root] = known
        return known
