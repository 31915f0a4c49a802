"""kube-scheduler's own speed on the test cluster, as the figure that others are divided by.

1,000 fake nodes of 32 cores, 5,000 pods of scheduler_perf's default kind (100m CPU, 500 MB, no constraint),
the default profile, and the client's rate raised in the configuration file: by default kube-scheduler binds
50 pods per second, whatever the machine.

* live: pods are created as fast as the API server takes them while the scheduler runs; from before the first
  creation to the last binding.
* full queue: all pods are there before the scheduler starts; from the first binding seen to the last. This is
  what scheduler_perf calls throughput, but there API server, etcd and scheduler are one process, nodes do
  nothing and nobody else watches. One row has kwok stopped.

How it is counted: `bench/live/speed.py`.
"""

from collections.abc import Callable
from statistics import median

from bench.harness import Row, median_ci95
from bench.live.speed import KUBE_SCHEDULER, Bed, full_queue, kube_scheduler, live
from bench.live.turns import Size, fake_bed

DEFAULT_BURST = 100  # requests that the default rate lets through at once
FEW_PODS = 600


def default_rate(bed: Bed) -> float:
    """Pods per second while the queue is full, the client's rate not raised, from the end of its burst on."""
    return full_queue(bed, kube_scheduler(has_default_rate=True), count=FEW_PODS, beyond=DEFAULT_BURST)


def run(*, quick: bool) -> list[Row]:
    """Measure on one cluster, which is made and taken away; `quick` has 100 nodes and 500 pods.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
    """
    size = Size.of(quick=quick)
    with fake_bed(size) as bed:
        rows = _rows(bed, size)
    return [
        *rows,
        Row.exact(
            bed.ready_s,
            name="testbed/up-fake",
            what=f"until all nodes are ready: control plane, {size.nodes:,} fake nodes",
            unit="s",
        ),
        Row.exact(
            bed.schedulable_s,
            name="testbed/schedulable-fake",
            what="the same, until the node controller has freed all of them from the taint of new nodes",
            unit="s",
        ),
    ]


def _rows(bed: Bed, size: Size) -> list[Row]:
    figures: list[tuple[Callable[[Bed], float], int, str, str]] = [
        (
            lambda bed: live(bed, kube_scheduler()),
            size.turns,
            "live",
            f"created while it runs, first creation to last binding: {size}",
        ),
        (
            lambda bed: full_queue(bed, kube_scheduler()),
            size.turns,
            "full-queue",
            f"all pods there before it starts, first to last binding: {size}",
        ),
        (
            lambda bed: full_queue(bed, kube_scheduler(), has_kubelets=False),
            (size.turns + 1) // 2,
            "full-queue-alone",
            "full queue, kwok stopped: no kubelet takes part",
        ),
        (
            default_rate,
            1,
            "default-rate",
            f"full queue, the client's rate by default: {FEW_PODS} pods",
        ),
    ]
    rows = [
        Row.of(
            median_ci95([figure(bed) for _ in range(times)]),
            name=f"kube-scheduler/{name}",
            what=what,
            unit="pods/s",
        )
        for figure, times, name, what in figures
    ]
    used = sorted(bed.cpu_ms_per_pod[KUBE_SCHEDULER].items(), key=lambda item: -median(item[1]))
    return rows + [
        Row.of(
            median_ci95(samples),
            name=f"kube-scheduler/cpu-{name}",
            what=f"processor time of {name} per pod, full queue",
            unit="ms",
        )
        for name, samples in used
    ]
