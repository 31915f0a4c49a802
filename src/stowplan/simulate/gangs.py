"""Gangs that run: workers of a training job go at one pace, set by the slowest and the ring between them.

The kernel knows tasks of one node. What couples them is worked out here at every instant at which the
simulator stops, and given back as a pace: steps per second by `core.physics.all_reduce` from what the links
carry besides, then the slowest worker (one whose node gives it less) holds up the others. A worker whose node
stands still stops all.

A gang that loses a task is lost: the others stop with it, and all are placed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Training
from stowplan.core.physics.all_reduce import Rings, step_rates
from stowplan.core.physics.vocabulary import Cause, LinkClass
from stowplan.simulate.hardware import Machines
from stowplan.simulate.kernel.kernel import FluidKernel
from stowplan.simulate.rings import Ring

__all__ = ["Gangs", "TrainingRun"]

_BEHIND = 1e-6
"""Share of its pace by which a worker must fall behind to hold up the others."""
_LEAST_PACE = 1e-3
"""Of workers that wait for one that stands still. Not less: what they lose is their work over their pace."""
_DUST = 1e-9
"""Share of a link's capacity that counts as no use: differences of large sums."""


@dataclass(slots=True, kw_only=True)
class TrainingRun:
    """One placed gang that trains, and what came of it so far.

    Attributes:
        workflow, gang: whose it is. training: what it does; `ideal_s`: seconds of a step with nothing between
        the workers. ring: where it does it. attempts: those of its tasks; `kernel_ids`, `speeds` (on their
        machines) and `flows` ((link, bytes per second of work) in the kernel) of the same. steps: done so
        far; `running_s`: in so many seconds; `reducing_s`: seconds of reductions in them, whether or not
        beside computing. step_rate, reduce_s: steps per second and seconds of a reduction now.
    """

    workflow: str
    gang: str
    training: Training
    ideal_s: float
    ring: Ring
    attempts: tuple[int, ...]
    kernel_ids: tuple[int, ...]
    speeds: tuple[float, ...]
    flows: tuple[tuple[tuple[int, float], ...], ...]
    steps: float = 0.0
    running_s: float = 0.0
    reducing_s: float = 0.0
    step_rate: float = 0.0
    reduce_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Tables:
    """The open runs as arrays: R runs with M workers, that have F flows in the kernel."""

    rings: Rings
    link_of: NDArray[np.int64]  # (L,) in the kernel, by the rings' links
    is_near: NDArray[np.bool_]  # (R,) within a node
    ideal_s: NDArray[np.float64]  # (R,)
    ids: NDArray[np.int64]  # (M,) in the kernel
    run: NDArray[np.int64]  # (M,) whose
    speed: NDArray[np.float64]  # (M,)
    flow_worker: NDArray[np.int64]  # (F,) index in ids
    flow_link: NDArray[np.int64]  # (F,)
    flow_bytes: NDArray[np.float64]  # (F,) per second of work


class Gangs:
    """All gangs of one run of the simulator.

    Attributes:
        runs: every training gang that was placed, in order.
    """

    def __init__(self, kernel: FluidKernel, machines: Machines, *, contention: bool) -> None:
        """Begin with none, on the machines that `kernel` runs; without contention no ring meets another."""
        self._contention = contention
        self.runs: list[TrainingRun] = []
        self._kernel = kernel
        self._first_own_link = machines.nodes.nic_up_link(0)
        self._interconnects = machines.interconnect[machines.interconnect >= 0]
        self._siblings: dict[int, tuple[int, ...]] = {}
        self._run_of: dict[int, TrainingRun] = {}
        self._open: list[TrainingRun] = []
        self._tables: _Tables | None = None
        self._since_s = kernel.now_s

    def add(self, attempts: Sequence[int], run: TrainingRun | None) -> None:
        """Take in the attempts of a gang that was placed; `run` when it trains."""
        whole = tuple(attempts)
        self._siblings.update((attempt, whole) for attempt in whole)
        if run is not None:
            self.runs.append(run)
            self._open.append(run)
            self._run_of.update((attempt, run) for attempt in whole)
            self._tables = None

    def __contains__(self, attempt: int) -> bool:
        """Tell whether an attempt is of a gang and has not ended."""
        return attempt in self._siblings

    def others(self, attempt: int) -> tuple[int, ...]:
        """Return the attempts of the same gang that have not ended, without this one."""
        return tuple(
            one for one in self._siblings.get(attempt, ()) if one != attempt and one in self._siblings
        )

    def ended(self, attempt: int) -> None:
        """Note that an attempt ended: from the first of a gang on, its pace is left as it is."""
        self._siblings.pop(attempt, None)
        run = self._run_of.pop(attempt, None)
        if run is not None and any(run is one for one in self._open):
            self.account()
            self._open = [one for one in self._open if one is not run]
            self._tables = None

    def account(self) -> None:
        """Count the steps up to now."""
        elapsed_s = self._kernel.now_s - self._since_s
        self._since_s = self._kernel.now_s
        if elapsed_s > 0.0:
            for run in self._open:
                steps = run.step_rate * elapsed_s
                run.steps += steps
                run.running_s += elapsed_s if steps > 0.0 else 0.0
                run.reducing_s += steps * run.reduce_s

    def couple(self) -> None:
        """Give every training gang its pace from now on."""
        if not self._open:
            self._since_s = self._kernel.now_s
            return
        self.account()
        if self._tables is None:
            self._tables = _gathered(self._open, contention=self._contention)
        tables, kernel = self._tables, self._kernel
        usage, capacity = kernel.link_use()
        own = kernel.rate(tables.ids)[tables.flow_worker] * tables.flow_bytes
        others = usage - np.bincount(tables.flow_link, own, usage.shape[0])
        others[~(others > _DUST * capacity)] = 0.0
        links = tables.link_of
        steps_per_s, reduce_s, decides = step_rates(tables.rings, capacity[links], others[links])
        pace = np.maximum(tables.ideal_s * steps_per_s, _LEAST_PACE)[tables.run] / tables.speed
        cause = self._causes(decides, tables)[tables.run]
        kernel.set_pace(tables.ids, pace, cause)
        got = kernel.rate(tables.ids)
        slowest = np.ones(len(self._open))
        np.minimum.at(slowest, tables.run, got / (tables.speed * pace))
        goes = np.zeros(len(self._open))
        np.maximum.at(goes, tables.run, got)
        late = ((slowest < 1.0 - _BEHIND) & (goes > 0.0))[tables.run]
        if late.any():
            behind = np.maximum(slowest, _LEAST_PACE)[tables.run]
            kernel.set_pace(tables.ids[late], (pace * behind)[late], cause[late])
        steps_now = np.where(goes > 0.0, steps_per_s * slowest, 0.0)
        for run, rate, seconds in zip(self._open, steps_now.tolist(), reduce_s.tolist(), strict=True):
            run.step_rate, run.reduce_s = rate, seconds

    def _causes(self, decides: NDArray[np.int64], tables: _Tables) -> NDArray[np.int64]:
        """Return what a run loses by its reductions to, (R,): the network, or PCIe inside a node."""
        links = np.append(tables.link_of, -1)[decides]
        inside = np.isin(links, self._interconnects) | ((links < 0) & tables.is_near)
        own_links = (links >= self._first_own_link) & tables.is_near
        return np.where(inside | own_links, int(Cause.PCIE), int(Cause.NETWORK))


def _gathered(runs: Sequence[TrainingRun], *, contention: bool) -> _Tables:
    rings = [run.ring for run in runs]
    workers = [(index, place) for index, run in enumerate(runs) for place in range(len(run.kernel_ids))]
    flows = [
        (worker, link, amount)
        for worker, (index, place) in enumerate(workers)
        for link, amount in runs[index].flows[place]
    ]
    loads = [(index, link) for index, ring in enumerate(rings) for link in ring.links]
    loaded = np.array([link for _, link in loads], dtype=np.int64)
    link_of, shared = (
        np.unique(loaded, return_inverse=True) if contention else (loaded, np.arange(loaded.size))
    )
    return _Tables(
        rings=Rings(
            compute_s=np.array([run.training.compute_s / min(run.speeds) for run in runs]),
            latency_s=np.array([ring.latency_s for ring in rings]),
            overlap=np.array([run.training.overlap for run in runs]),
            ring_bytes=np.array([ring.bytes_per_step for ring in rings]),
            own_bytes_per_s=np.array([ring.own_bytes_per_s for ring in rings]),
            ring=np.array([index for index, _ in loads], dtype=np.int64),
            link=shared.astype(np.int64),
        ),
        link_of=link_of,
        is_near=np.array([ring.distance <= LinkClass.SAME_NODE for ring in rings]),
        ideal_s=np.array([run.ideal_s for run in runs]),
        ids=np.array([runs[index].kernel_ids[place] for index, place in workers], dtype=np.int64),
        run=np.array([index for index, _ in workers], dtype=np.int64),
        speed=np.array([runs[index].speeds[place] for index, place in workers]),
        flow_worker=np.array([worker for worker, _, _ in flows], dtype=np.int64),
        flow_link=np.array([link for _, link, _ in flows], dtype=np.int64),
        flow_bytes=np.array([amount for _, _, amount in flows], dtype=np.float64),
    )
