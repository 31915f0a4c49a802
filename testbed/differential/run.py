"""Many cases by the oracle, in several processes, with a tally on disk that a later run goes on from.

A chunk of consecutive seeds is one unit of work. Which chunks are done is in the file with the sums, so a run
that is stopped (Ctrl-C, or the machine) loses at most the chunks that were under way.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from stowplan.core.constraints import FILTERS
from testbed.differential.comparison import compare
from testbed.differential.generator import generate
from testbed.differential.oracle import Oracle
from testbed.differential.tally import Tally
from testbed.errors import BedError

__all__ = [
    "CLUSTERS_PER_CHUNK",
    "DECIDABLE",
    "PODS_PER_CLUSTER",
    "Progress",
    "read_progress",
    "run",
    "run_chunk",
    "seeds_of",
    "summary",
]

CLUSTERS_PER_CHUNK: Final = 10
PODS_PER_CLUSTER: Final = 20
"""Pods that wait: a cluster costs as much to read as these cost to judge."""
_SAVE_EVERY_S: Final = 5.0
_SEEDS_PER_RUN: Final = 10_000_000
DECIDABLE: Final = tuple(name for name in FILTERS if name not in ("NodeName", "SharedGpu", "RuleTable"))
"""Filters that objects can make decisive: a pod that names its node is bound, and the last two are ours."""


class Progress(msgspec.Struct, kw_only=True):
    """What has been done of a run.

    Attributes:
        seed: Of the run; the seeds of its cases follow from it.
        nodes: Per cluster.
        emphasis: Of all clusters; None: they take turns.
        done: Numbers of the chunks that are in the tally.
        elapsed_s: Time spent, over all goes.
        tally: The sums.
    """

    seed: int
    nodes: int
    emphasis: str | None = None
    done: list[int] = []
    elapsed_s: float = 0.0
    tally: Tally = msgspec.field(default_factory=Tally)


def seeds_of(seed: int, chunk: int) -> range:
    """Return the seeds of the cases of a chunk; no two runs share any."""
    first = seed * _SEEDS_PER_RUN + chunk * CLUSTERS_PER_CHUNK
    return range(first, first + CLUSTERS_PER_CHUNK)


def read_progress(path: Path, seed: int, nodes: int, emphasis: str | None = None) -> Progress:
    """Return what a run has done so far, nothing when the file is not there.

    Raises:
        BedError: the file is of another run, or of none.
    """
    if not path.exists():
        return Progress(seed=seed, nodes=nodes, emphasis=emphasis)
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Progress)
    except msgspec.DecodeError as error:
        raise BedError(f"{path} is not the tally of a run ({error}); name another file") from error
    if (known.seed, known.nodes, known.emphasis) != (seed, nodes, emphasis):
        theirs = f"seed {known.seed} with {known.nodes} nodes{_about(known.emphasis)}"
        raise BedError(
            f"{path} is of {theirs}, not of seed {seed} with {nodes}{_about(emphasis)}; "
            "name another file, or take the same"
        )
    return known


def _about(emphasis: str | None) -> str:
    return f" about {emphasis}" if emphasis else ""


def _write(path: Path, progress: Progress) -> None:
    unfinished = path.with_suffix(f"{path.suffix}.tmp")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(progress), indent=1))
    unfinished.replace(path)


class _Worker:
    """What a process keeps between chunks."""

    oracle: Oracle | None = None


def _start_worker(program: Path | None, emphasis: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent alone decides what an interrupt means
    gc.set_threshold(200_000)  # a case makes many objects, which go with their last reference
    oracle = Oracle(program=program, has_preemptions=emphasis == "preemption")
    _Worker.oracle = oracle.__enter__()  # it ends with its pipe, when this process does


def _work(seeds: range, nodes: int, emphasis: str | None) -> Tally:
    if _Worker.oracle is None:
        raise BedError("a process was given work before it was started")
    return run_chunk(_Worker.oracle, seeds, nodes, emphasis, pods=PODS_PER_CLUSTER)


def run_chunk(
    oracle: Oracle, seeds: range, nodes: int, emphasis: str | None = None, *, pods: int | None = None
) -> Tally:
    """Judge the cases of some seeds and return their sums; the rest as for `generate`."""
    tally = Tally()
    cases = [generate(seed, nodes, emphasis, pods=pods) for seed in seeds]
    for case, (objects, answer) in zip(
        cases, oracle.judge_all([case.objects for case in cases]), strict=True
    ):
        one = compare(objects, answer)
        one.mismatches = [
            msgspec.structs.replace(mismatch, seed=case.seed, emphasis=case.emphasis)
            for mismatch in one.mismatches
        ]
        tally.add(one)
    return tally


def run(  # noqa: PLR0913  (one argument per option of the command)
    path: Path,
    *,
    cases: int,
    seed: int,
    processes: int,
    nodes: int = 50,
    emphasis: str | None = None,
    program: Path | None = None,
) -> Iterator[Progress]:
    """Judge cases until there are `cases` of them, and write the tally to `path` as it grows.

    Args:
        path: The file; a run of the same seed goes on from it.
        cases: How many pods to judge at least.
        seed: Of the run.
        processes: How many processes, each with an oracle of its own.
        nodes: Per cluster.
        emphasis: Of all clusters; None: they take turns.
        program: The oracle, where it is not the one of the cache.

    Yields:
        The progress: what was done before, then after each chunk.

    Raises:
        BedError: the oracle is not built or died, or the file is of another run.
    """
    progress = read_progress(path, seed, nodes, emphasis)
    yield progress  # it may be all that is wanted
    before_s, start = progress.elapsed_s, time.monotonic()
    saved = start
    chunks = (chunk for chunk in count() if chunk not in set(progress.done))
    running: dict[Future[Tally], int] = {}
    with ProcessPoolExecutor(processes, initializer=_start_worker, initargs=(program, emphasis)) as pool:
        try:
            while progress.tally.cases < cases:
                while len(running) < 2 * processes:
                    chunk = next(chunks)
                    running[pool.submit(_work, seeds_of(seed, chunk), nodes, emphasis)] = chunk
                for finished in wait(running, return_when=FIRST_COMPLETED).done:
                    chunk = running.pop(finished)
                    progress.tally.add(finished.result())
                    progress.done.append(chunk)
                progress.elapsed_s = before_s + time.monotonic() - start
                if time.monotonic() - saved > _SAVE_EVERY_S:
                    saved = time.monotonic()
                    _write(path, progress)
                yield progress
        finally:
            _write(path, progress)
            pool.shutdown(wait=False, cancel_futures=True)


def summary(progress: Progress) -> str:
    """Return the sums as a table of words."""
    tally = progress.tally
    share = tally.best_within / tally.scored if tally.scored else 0.0
    alone = f"left to kube-scheduler on purpose (resource claims): {tally.left_alone:,}"
    lines = [
        f"{tally.cases:,} cases in {tally.clusters:,} clusters of {progress.nodes} nodes",
        f"{tally.judgements:,} judgements, {tally.feasible:,} feasible, in {progress.elapsed_s:,.0f} s",
        alone,
        f"mismatches: {tally.different:,} {tally.differing or ''}",
        f"kube-scheduler's choice among our best: {share:.4%} of {tally.scored:,} cases with a choice",
        f"best nodes equal in {tally.best_equal:,} of them, all totals in {tally.totals_equal:,}",
        f"{'filter':<22} {'decisive in cases':>18} {'for nodes':>12}",
    ]
    lines += [
        f"{name:<22} {tally.decisive_cases.get(name, 0):>18,} {tally.decisive.get(name, 0):>12,}"
        for name in DECIDABLE
    ]
    if tally.preemptions:
        helped = f"{tally.helped:,} helped on some node and {tally.ineligible:,} were not eligible"
        lines += [
            f"preemption compared in {tally.preemptions:,} cases, of which {helped}",
            f"nodes to empty: {tally.emptied:,}, of which {tally.breaking:,} break a disruption budget",
        ]
    return "\n".join(lines)
