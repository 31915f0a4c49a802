"""Many runs: policies × seeds, in this process or several, with the same bytes of results either way.

A run depends on its own arguments only, and results are stacked in the order policy, seed, whatever the order
in which they came. Ctrl-C ends the runs under way after the step they are in and keeps what they have, marked
partial; runs that had not begun are left out. A second Ctrl-C gives up at once.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from stowplan.core.policy import Policy, make_policy
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.compare import NO_COMPARISON, compare
from stowplan.simulate.interrupts import Flag, ctrl_c_held_back, ctrl_c_sets
from stowplan.simulate.progress import RunProgress
from stowplan.simulate.results import RunResult, write_frames
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Workload

__all__ = ["ExperimentProgress", "ExperimentResult", "run_experiment"]

_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ExperimentProgress:
    """How far an experiment is. `share` (0–1) counts tasks that ended over all runs."""

    runs: int
    runs_done: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """The stacked frames of all runs, and each policy compared with `baseline`."""

    result: RunResult
    comparison: pl.DataFrame
    baseline: str
    runs: int
    runs_finished: int

    @property
    def is_partial(self) -> bool:
        """Whether a run was cut short or did not begin."""
        return self.result.is_partial or self.runs_finished < self.runs

    def write_parquet(self, folder: Path) -> list[Path]:
        """Write all frames and `comparison`; see `RunResult.write_parquet`."""
        return write_frames(folder, {**dict(self.result.frames()), "comparison": self.comparison})


@dataclass(frozen=True, slots=True)
class _Work:
    """What all runs share."""

    cluster: Cluster
    workload: Workload
    make: Callable[[str], Policy]
    settings: Mapping[str, Any]


def run_experiment(  # noqa: PLR0913  (each is one aspect of an experiment)
    cluster: Cluster,
    workload: Workload,
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    baseline: str | None = None,
    processes: int = 1,
    progress: Callable[[ExperimentProgress], None] | None = None,
    make: Callable[[str], Policy] = make_policy,
    **settings: Any,  # noqa: ANN401  (keywords of Simulation)
) -> ExperimentResult:
    """Run every policy under every seed.

    Args:
        cluster: as for `Simulation`.
        workload: as for `Simulation`.
        policies: names; each run makes its own policy.
        seeds: distinct.
        baseline: what the others are compared with; None: the first policy.
        processes: how many runs at a time.
        progress: called in this process, a few times a second at most when `processes` > 1.
        make: makes a policy of a name; other processes must be able to import it.
        settings: further keywords of `Simulation` (arrivals, rules, faults, contention, options, laws).

    Raises:
        InvalidInput: no policy, no seed, one given twice, or a baseline that is not run.
        UnknownName: no policy of that name.
        StowplanError: a run failed; the others are given up.
        KeyboardInterrupt: Ctrl-C came before any run began.
    """
    for what, given in (("policy", policies), ("seed", seeds)):
        if not given:
            raise InvalidInput(f"no {what} is given; name at least one")
        twice = {one for one in given if list(given).count(one) > 1}
        if twice:
            raise InvalidInput(f"{what} {min(twice)!r} is given twice; name each once")
    against = baseline if baseline is not None else policies[0]
    if against not in policies:
        raise InvalidInput(f"baseline {against!r} is not among the policies {', '.join(policies)}; add it")
    for name in policies:
        make(name)  # an unknown name is told before hours of work
    if processes < 1:
        raise InvalidInput(f"processes is {processes}; give at least 1")
    jobs = [(policy, seed) for seed in seeds for policy in policies]  # so that what is cut short has pairs
    work = _Work(cluster, workload, make, settings)
    if processes == 1 or len(jobs) == 1:
        results = _run_here(work, jobs, progress)
    else:
        results = _run_in_processes(work, jobs, progress, min(processes, len(jobs)))
    if not results:
        raise KeyboardInterrupt  # it came before a run began: there is nothing to keep
    stacked = RunResult.stacked(
        results[policy, seed] for policy in policies for seed in seeds if (policy, seed) in results
    )
    was_run = against in stacked.summary["policy"].to_list()
    return ExperimentResult(
        result=stacked,
        comparison=compare(stacked.summary, baseline=against) if was_run else NO_COMPARISON,
        baseline=against,
        runs=len(jobs),
        runs_finished=sum(not result.is_partial for result in results.values()),
    )


def _run_here(
    work: _Work, jobs: Sequence[tuple[str, int]], progress: Callable[[ExperimentProgress], None] | None
) -> dict[tuple[str, int], RunResult]:
    results: dict[tuple[str, int], RunResult] = {}
    stop = threading.Event()
    with ctrl_c_sets(stop):
        for policy, seed in jobs:
            if stop.is_set() and results:
                break

            def watch(run: RunProgress) -> None:
                if progress is not None:
                    share = (len(results) + run.ended_tasks / run.tasks) / len(jobs)
                    progress(ExperimentProgress(len(jobs), len(results), share))

            results[policy, seed] = _run_one(work, policy, seed, stop, watch)
            if progress is not None:
                progress(ExperimentProgress(len(jobs), len(results), len(results) / len(jobs)))
    return results


def _run_one(
    work: _Work, policy: str, seed: int, stop: Flag, watch: Callable[[RunProgress], None]
) -> RunResult:
    simulation = Simulation(work.cluster, work.workload, work.make(policy), seed=seed, **work.settings)
    gc.freeze()  # what a run keeps to its end, the collector need not walk again and again

    def observer(run: RunProgress) -> None:
        watch(run)
        if stop.is_set():
            simulation.request_stop()

    try:
        return simulation.run(observer)
    finally:
        gc.unfreeze()


# ---- several processes ----------------------------------------------------------------------


class _Worker:
    """What a worker process keeps between runs; set once by `_begin_worker`."""

    work: _Work
    stop: Flag
    shares: Any


def _begin_worker(work: _Work, stop: Flag, shares: Any) -> None:  # noqa: ANN401  (a shared array has no public type)
    _Worker.work, _Worker.stop, _Worker.shares = work, stop, shares


def _run_in_worker(job: int, policy: str, seed: int) -> RunResult | None:
    if _Worker.stop.is_set():  # this run was already on its way here when the stop came
        return None

    def watch(run: RunProgress) -> None:
        _Worker.shares[job] = run.ended_tasks / run.tasks

    return _run_one(_Worker.work, policy, seed, _Worker.stop, watch)


def _run_in_processes(
    work: _Work,
    jobs: Sequence[tuple[str, int]],
    progress: Callable[[ExperimentProgress], None] | None,
    processes: int,
) -> dict[tuple[str, int], RunResult]:
    # Not forked: threads of the libraries that write results would not survive it.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    shares = context.Array("d", len(jobs), lock=False)
    with (
        ctrl_c_sets(stop),
        ProcessPoolExecutor(
            processes, mp_context=context, initializer=_begin_worker, initargs=(work, stop, shares)
        ) as pool,
    ):
        with ctrl_c_held_back():  # workers are born in here
            futures = [pool.submit(_run_in_worker, job, *arguments) for job, arguments in enumerate(jobs)]
        open_runs: set[Future[RunResult | None]] = set(futures)
        while open_runs:
            ended, open_runs = wait(open_runs, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            failed = [future for future in ended if not future.cancelled() and future.exception() is not None]
            if failed or stop.is_set():
                stop.set()
                for future in open_runs:
                    future.cancel()
            if progress is not None:
                done = len(jobs) - len(open_runs)
                progress(ExperimentProgress(len(jobs), done, sum(shares) / len(jobs)))
    results = [None if future.cancelled() else future.result() for future in futures]
    return {job: result for job, result in zip(jobs, results, strict=True) if result is not None}
