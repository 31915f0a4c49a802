"""How a number is measured here: interleaved with its peer, as a median with a 95 % interval.

Two programs timed one after the other see two different machines (frequency, caches, neighbours); timed in
turns they see the same one, and the ratio of each pair is free of what both share. Medians and their
intervals come from order statistics, which assume nothing about how times are distributed.

Source of the interval: the number of samples below the median is Binomial(n, 1/2), so the k-th smallest and
k-th largest of n samples enclose the median with probability 1 - 2 P(B < k). W. J. Conover, Practical
Nonparametric Statistics, 3rd edition 1999, section 3.2.
"""

import gc
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from testbed.cache import cache_folder, content_hash

__all__ = [
    "Estimate",
    "Paired",
    "Row",
    "build_cached",
    "compare",
    "cpu_model",
    "interleave",
    "measure",
    "median_ci95",
    "time_once",
]

MIN_SAMPLES_FOR_CI95 = (
    6  # with fewer, even the whole range encloses the median less often than 95 times in 100
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and the interval that encloses it 95 times in 100 (with fewer than six samples: the range)."""

    median: float
    low: float
    high: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured number, as it is kept in `results/` and printed in `docs/BENCHMARKS.md`.

    `name` is unique over all modules and is what a limit refers to, for example `physics/solve-2048`. `ratio`
    says how many times better than the peer we are (for durations peer / ours, for rates ours / peer): more
    is always better. `command` makes the number again; empty means `python -m bench MODULE`.
    """

    name: str
    what: str
    unit: str
    median: float
    ci95_low: float
    ci95_high: float
    samples: int
    peer: str = ""
    peer_median: float | None = None
    ratio: float | None = None
    ratio_ci95: tuple[float, float] | None = None
    command: str = ""
    note: str = ""

    @classmethod
    def of(cls, estimate: Estimate, *, name: str, what: str, unit: str, note: str = "") -> "Row":
        """Make a row of one estimate, without a peer."""
        return cls(
            name=name,
            what=what,
            unit=unit,
            median=estimate.median,
            ci95_low=estimate.low,
            ci95_high=estimate.high,
            samples=estimate.samples,
            note=note,
        )

    @classmethod
    def exact(cls, value: float, *, name: str, what: str, unit: str, note: str = "") -> "Row":
        """Make a row of a number that does not vary from run to run: an error, a count, a size."""
        return cls.of(Estimate(value, value, value, 1), name=name, what=what, unit=unit, note=note)


@dataclass(frozen=True, slots=True)
class Paired:
    """Durations in seconds of two programs timed in turns; the i-th of each belong together."""

    ours_s: tuple[float, ...]
    peer_s: tuple[float, ...]

    def speedup(self) -> Estimate:
        """Estimate how many times faster ours is, from the ratio of each pair."""
        return median_ci95([peer / ours for ours, peer in zip(self.ours_s, self.peer_s, strict=True)])


def median_ci95(samples: Sequence[float]) -> Estimate:
    """Return the median of `samples` with its distribution-free 95 % interval.

    Raises:
        ValueError: no samples, or one that is not finite.
    """
    if not samples:
        raise ValueError("no samples to take a median of; run at least one repeat")
    ordered = sorted(samples)
    if not all(math.isfinite(sample) for sample in ordered):
        raise ValueError(f"samples must be finite, got {samples!r}")
    n = len(ordered)
    # The largest k whose interval [k-th smallest, k-th largest] still has 95 %: 2 P(B < k) <= 5 %.
    k, below = 0, 0.0
    while k < n // 2:
        below += math.comb(n, k) / (1 << n)  # exact for any n; 2.0**n overflows beyond 1,023
        if 2.0 * below > 0.05:
            break
        k += 1
    if k == 0:
        return Estimate(median(ordered), ordered[0], ordered[-1], n)
    return Estimate(median(ordered), ordered[k - 1], ordered[n - k], n)


def time_once(function: Callable[[], object]) -> float:
    """Return the seconds one call takes, with the garbage of earlier calls collected before."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start_s = perf_counter()
        function()
        return perf_counter() - start_s
    finally:
        if was_enabled:
            gc.enable()


def measure(function: Callable[[], object], *, repeats: int, warmups: int = 1) -> Estimate:
    """Return the seconds per call over `repeats` calls after `warmups` (which compile and fill caches)."""
    for _ in range(warmups):
        function()
    return median_ci95([time_once(function) for _ in range(repeats)])


def interleave(
    ours: Callable[[], object], peer: Callable[[], object], *, repeats: int, warmups: int = 1
) -> Paired:
    """Time `ours` and `peer` in turns, `repeats` times each; who begins changes from pair to pair."""
    for _ in range(warmups):
        ours()
        peer()
    ours_s: list[float] = []
    peer_s: list[float] = []
    for repeat in range(repeats):
        turns = [(ours, ours_s), (peer, peer_s)]
        for function, durations_s in turns if repeat % 2 == 0 else reversed(turns):
            durations_s.append(time_once(function))
    return Paired(tuple(ours_s), tuple(peer_s))


def compare(paired: Paired, *, name: str, what: str, peer: str, note: str = "") -> Row:
    """Make the row of two programs timed in turns; its unit is seconds, its ratio the speed-up."""
    ours = median_ci95(paired.ours_s)
    speedup = paired.speedup()
    return Row(
        name=name,
        what=what,
        unit="s",
        median=ours.median,
        ci95_low=ours.low,
        ci95_high=ours.high,
        samples=ours.samples,
        peer=peer,
        peer_median=median(paired.peer_s),
        ratio=speedup.median,
        ratio_ci95=(speedup.low, speedup.high),
        note=note,
    )


def cpu_model() -> str:
    """Return the processor's name as the kernel tells it; compiled peers are kept per processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def build_cached(source: Path, command: Sequence[str]) -> Path:
    """Compile `source` once and return the program; kept by content of source, command and processor.

    Args:
        source: the file that is compiled.
        command: the compiler's command line, in which `{source}` and `{output}` stand for the two paths.

    Raises:
        subprocess.CalledProcessError: the compiler failed; its messages are on standard error.
    """
    key = content_hash([*(part.encode() for part in command), cpu_model().encode(), source.read_bytes()])
    cache = cache_folder()
    program = cache / f"{source.stem}-{key}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        subprocess.run([part.format(source=source, output=unfinished) for part in command], check=True)
        unfinished.rename(program)  # atomic: nobody ever runs half a program
    return program
