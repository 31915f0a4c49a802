"""A cluster of fake nodes on which schedulers take turns: its size, how it is made, and who is next.

Two schedulers measured one after the other see two different machines; measured in turns they see the same
one, and the ratio of each pair is free of what both share.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Self

from bench.harness import MIN_SAMPLES_FOR_CI95, Row, median_ci95
from bench.live.speed import Bed, Contender
from testbed import cluster, kwok
from testbed.spec import ClusterSpec, FakeNodes

__all__ = ["FakeBed", "Size", "fake_bed", "in_turns", "rate_row"]


@dataclass(frozen=True)
class Size:
    """How large a measurement is.

    Attributes:
        nodes: Fake nodes of the cluster.
        pods: Pods of one run.
        turns: How often each figure is taken.
    """

    nodes: int
    pods: int
    turns: int

    @classmethod
    def of(cls, *, quick: bool) -> Self:
        """scheduler_perf's size, or a tenth of it."""
        return cls(100, 500, 1) if quick else cls(1000, 5000, MIN_SAMPLES_FOR_CI95)

    def __str__(self) -> str:
        """As rows name it."""
        return f"{self.nodes:,} fake nodes, {self.pods:,} pods"


@dataclass(kw_only=True)
class FakeBed(Bed):
    """A bed of fake nodes.

    Attributes:
        ready_s: How long it took until all nodes were ready.
        schedulable_s: How long until pods could be placed on all of them.
    """

    ready_s: float
    schedulable_s: float


@contextmanager
def fake_bed(size: Size) -> Generator[FakeBed]:
    """A cluster without a scheduler, which is taken away after the block.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
    """
    spec = ClusterSpec(fake_nodes=(FakeNodes(count=size.nodes, taints=()),), scheduler=None)
    began_s = time.monotonic()
    running = cluster.start(spec, owned=True)
    try:
        ready_s = time.monotonic() - began_s
        kwok.wait_until_schedulable(running.plane, running.client)
        schedulable_s = time.monotonic() - began_s
        yield FakeBed(running, size.pods, ready_s=ready_s, schedulable_s=schedulable_s)
    finally:
        running.down()


def in_turns(contenders: Sequence[Contender], turns: int) -> Iterator[tuple[int, Contender]]:
    """Yield the number of the turn and who is measured next; who begins changes from turn to turn."""
    for turn in range(turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            yield turn, contender


def rate_row(ours: Sequence[float], theirs: Sequence[float], *, name: str, what: str, peer: str) -> Row:
    """Make the row of two rates in pods per second, of which the i-th of each belong together."""
    estimate = median_ci95(ours)
    ratio = median_ci95([mine / other for mine, other in zip(ours, theirs, strict=True)])
    return Row(
        name=name,
        what=what,
        unit="pods/s",
        median=estimate.median,
        ci95_low=estimate.low,
        ci95_high=estimate.high,
        samples=estimate.samples,
        peer=peer,
        peer_median=median(theirs),
        ratio=ratio.median,
        ratio_ci95=(ratio.low, ratio.high),
    )
