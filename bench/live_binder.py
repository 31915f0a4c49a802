"""Pods per second: Stowplan's binder against kube-scheduler, on one cluster, in turns.

The bed and the two ways to measure are those of kube-scheduler's own figures
(`bench/kube_scheduler_speed.py`, `bench/live/speed.py`): 1,000 fake nodes, 5,000 pods without constraints, no
client held back by a rate. Two processors carry all of it, so what the API server, etcd, kwok and the
controllers take per pod is in both figures; the rows of processor time tell how much is the scheduler's.
"""

from collections.abc import Callable
from statistics import median

from bench.harness import Row, median_ci95
from bench.live.speed import (
    KUBE_SCHEDULER,
    STOWPLAN,
    Bed,
    Contender,
    full_queue,
    kube_scheduler,
    live,
    stowplan,
)
from bench.live.turns import Size, fake_bed, in_turns, rate_row

Figure = Callable[[Bed, Contender], float]


def run(*, quick: bool) -> list[Row]:
    """Measure in pairs on one cluster; `quick` has 100 nodes, 500 pods and one pair of each.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
    """
    size = Size.of(quick=quick)
    with fake_bed(size) as bed:
        figures: list[tuple[str, str, Figure]] = [
            ("full-queue", f"all pods there before it starts, first to last binding: {size}", full_queue),
            (
                "full-queue-alone",
                "the same with kwok stopped: no kubelet takes part",
                lambda bed, contender: full_queue(bed, contender, has_kubelets=False),
            ),
            ("live", f"created while it runs, first creation to last binding: {size}", live),
        ]
        rows = [_compared(bed, name, what, figure, size.turns) for name, what, figure in figures]
    return rows + _processor_rows(bed)


def _compared(bed: Bed, name: str, what: str, figure: Figure, turns: int) -> Row:
    contenders = [stowplan({}), kube_scheduler()]
    rates: dict[str, list[float]] = {STOWPLAN: [], KUBE_SCHEDULER: []}
    for turn, contender in in_turns(contenders, turns):
        rates[contender.name].append(figure(bed, contender))
        print(f"  {name} {turn}: {contender.name} {rates[contender.name][-1]:.1f} pods/s", flush=True)
    return rate_row(
        rates[STOWPLAN], rates[KUBE_SCHEDULER], name=f"binder/{name}", what=what, peer=KUBE_SCHEDULER
    )


def _processor_rows(bed: Bed) -> list[Row]:
    """Processor time per pod, full queue: of each process under Stowplan, beside that under the peer."""
    ours, theirs = bed.cpu_ms_per_pod[STOWPLAN], bed.cpu_ms_per_pod[KUBE_SCHEDULER]
    rows: list[Row] = []
    for name, samples in sorted(ours.items(), key=lambda item: -median(item[1])):
        estimate = median_ci95(samples)
        peer = theirs.get(KUBE_SCHEDULER if name == STOWPLAN else name)
        rows.append(
            Row(
                name=f"binder/cpu-{name}",
                what=f"processor time of {name} per pod, full queue",
                unit="ms",
                median=estimate.median,
                ci95_low=estimate.low,
                ci95_high=estimate.high,
                samples=estimate.samples,
                peer="" if peer is None else "under kube-scheduler",
                peer_median=None if peer is None else median(peer),
            )
        )
    return rows
