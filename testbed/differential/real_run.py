"""A run of generated cases through the real kube-scheduler, one cluster after the other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import typer

from testbed.differential.generator import generate
from testbed.differential.oracle import Oracle
from testbed.differential.real_comparison import RealTally, compare_real
from testbed.differential.real_scheduler import RealScheduler
from testbed.differential.run import seeds_of

__all__ = ["RealProgress", "command", "run_real", "summary_of_real"]

_CLUSTERS_PER_LINE: Final = 10


class RealProgress(msgspec.Struct, kw_only=True):
    """What has been done of a run.

    Attributes:
        seed: Of the run; the seeds of its cases follow from it.
        nodes: Per cluster.
        started_s: How long the control plane took to come up.
        elapsed_s: Time spent on the cases.
        slowest_s: Time spent on the slowest cluster.
        cases_by_emphasis: How many pods were judged in clusters of each emphasis.
        tally: The sums.
    """

    seed: int
    nodes: int
    started_s: float = 0.0
    elapsed_s: float = 0.0
    slowest_s: float = 0.0
    cases_by_emphasis: dict[str, int] = {}
    tally: RealTally = msgspec.field(default_factory=RealTally)

    @property
    def seconds_per_case(self) -> float:
        """Time per pod, with all that its cluster took."""
        return self.elapsed_s / self.tally.cases if self.tally.cases else 0.0


def run_real(
    out: Path, *, cases: int, seed: int, nodes: int = 50, program: Path | None = None
) -> Iterator[RealProgress]:
    """Give kube-scheduler clusters until it judged `cases` pods, and write the sums to `out` at the end.

    A cluster in which something differs is written beside it, as `STEM-SEED.json`: the objects as they were
    made, as the API server held them, and what differs.

    Args:
        out: The file.
        cases: How many pods at least.
        seed: Of the run.
        nodes: Per cluster.
        program: The oracle, where it is not the one of the cache.

    Yields:
        The progress, after each cluster.

    Raises:
        BedError: The machine lacks something, or a part ended.
    """
    progress = RealProgress(seed=seed, nodes=nodes)
    before = time.monotonic()
    with Oracle(program=program) as oracle, RealScheduler() as real:
        progress.started_s = time.monotonic() - before
        before = time.monotonic()
        for number in itertools.chain.from_iterable(seeds_of(seed, chunk) for chunk in itertools.count()):
            case = generate(number, nodes)
            answer = real.judge(case.objects)
            tally = compare_real(case.objects, answer, oracle.judge(case.objects))
            if tally.mismatches:
                held = getattr(answer, "objects", ())
                shown = {"objects": case.objects, "held": held, "mismatches": tally.mismatches}
                out.with_name(f"{out.stem}-{number}.json").write_bytes(_readable(shown))
            tally.mismatches = [
                msgspec.structs.replace(mismatch, seed=number, emphasis=case.emphasis)
                for mismatch in tally.mismatches
            ]
            progress.tally.add(tally)
            by_emphasis = progress.cases_by_emphasis
            by_emphasis[case.emphasis] = by_emphasis.get(case.emphasis, 0) + tally.cases
            took_s = time.monotonic() - before - progress.elapsed_s
            progress.slowest_s = max(progress.slowest_s, took_s)
            progress.elapsed_s += took_s
            yield progress
            if progress.tally.cases >= cases:
                break
    out.write_bytes(_readable(progress))


def summary_of_real(progress: RealProgress) -> str:
    """Return the sums as lines of words."""
    tally = progress.tally
    share = tally.chosen_in_our_best / tally.chosen if tally.chosen else 0.0
    outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.outcomes.items()))
    same_words = tally.worded - tally.differing.get("words", 0)
    return "\n".join(
        (
            f"{tally.cases:,} cases in {tally.clusters:,} clusters of {progress.nodes} nodes, through it",
            f"{progress.elapsed_s:,.0f} s, {progress.seconds_per_case:.2f} s per case",
            f"{tally.judgements:,} judgements, {tally.feasible:,} feasible; {outcomes}",
            f"mismatches: {tally.different:,} {tally.differing or ''}",
            f"its choice among our best: {share:.4%} of {tally.chosen:,} cases with a choice",
            f"its choice among the oracle's best: {tally.chosen_in_oracle_best:,}",
            f"all totals equal to ours in {tally.our_totals_equal:,} of {tally.scored:,} cases",
            f"reasons equal to the oracle's in {same_words:,} of {tally.worded:,} cases without a node",
        )
    )


def command(out: Path, *, cases: int, seed: int, nodes: int, program: Path | None) -> int:
    """Run by hand, with a line of progress now and then; returns the exit code.

    Raises:
        BedError: The machine lacks something, or a part ended.
    """
    progress = None
    for progress in run_real(out, cases=cases, seed=seed, nodes=nodes, program=program):
        done, different = progress.tally.cases, progress.tally.different
        if progress.tally.clusters % _CLUSTERS_PER_LINE == 0:
            line = f"{done:,} of {cases:,} cases, {different:,} mismatches ({progress.elapsed_s:,.0f} s)"
            typer.echo(line, err=True)
    if progress is None:
        return 0
    typer.echo(summary_of_real(progress))
    for mismatch in progress.tally.mismatches:
        typer.echo(str(mismatch))
    return 1 if progress.tally.different else 0


def _readable(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
