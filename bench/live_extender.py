"""What the extender costs kube-scheduler, and what its foresight of pods in flight is worth.

The bed, the pods and the counting are those of kube-scheduler's own figures (`bench/live/speed.py`): 1,000
fake nodes, 5,000 pods that are all there before kube-scheduler starts. It runs with and without the extender
in turns, with no client held back by a rate. Both, and the API server, etcd and kwok, share the machine's
processors.

Part of the cost is kube-scheduler's own: with any extender it gives up scheduling equal pods in batches
(`OpportunisticBatching`, on by default since 1.35), and it writes out every pod and hundreds of names of
nodes. So it is also measured alone with batches switched off, and with an extender that says nothing.

kube-scheduler's time for a pod is its metric `scheduler_scheduling_algorithm_duration_seconds`, which holds
the extender's calls; quantiles are read off its buckets as Prometheus does.

Foresight: a burst of pods, as many as a fifth of the nodes, is scored by a policy that takes the emptiest of
equal nodes. Pods that share a node with another of the burst were scored before the binding of the other was
seen.
"""

import sys
from collections import Counter as Tally
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from bench.harness import Estimate, Row, median_ci95
from bench.live.speed import KUBE_SCHEDULER, Bed, Contender, TheirCounter, follow, full_queue
from bench.live.turns import Size, fake_bed, in_turns, rate_row
from stowplan.serve.extender.configuration import extender_entry
from testbed import bulk, network
from testbed.spec import Json
from testbed.stowplan import NAME, Scheduler, grant

PORT = 10452
URL = f"http://127.0.0.1:{PORT}"
ALONE = KUBE_SCHEDULER
WITH_EXTENDER = "with the extender"
UNBATCHED = "without batches"
WITH_BARE = "with a bare extender"
BARE = "bare-extender"
BARE_PROGRAM = Path(__file__).with_name("live") / "bare_extender.py"
ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"


class TimedCounter(TheirCounter):
    """kube-scheduler's count of bindings, and how long its decisions took."""

    def quantile_ms(self, share: float) -> float:
        """Return the quantile of its time for a pod in milliseconds, interpolated within a bucket."""
        self._connection.request("GET", "/metrics")
        text = self._connection.getresponse().read().decode()
        buckets = [
            (float(sample.labels["le"]), sample.value)
            for family in text_string_to_metric_families(text)
            if family.name == ALGORITHM
            for sample in family.samples
            if sample.name == f"{ALGORITHM}_bucket"
        ]
        return 1000 * quantile(sorted(buckets), share)


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float:
    """Return a quantile from (upper bound, count up to it), as `histogram_quantile` of Prometheus does."""
    wanted = share * buckets[-1][1]
    below, seen = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted and count > seen:
            if bound == float("inf"):
                return below
            return below + (bound - below) * (wanted - seen) / (count - seen)
        below, seen = bound, count
    return below


@dataclass
class Times:
    """Quantiles of kube-scheduler's time for a pod, one of each per run, in milliseconds."""

    p50_ms: list[float] = field(default_factory=list[float])
    p99_ms: list[float] = field(default_factory=list[float])

    @contextmanager
    def kept(self, bed: Bed) -> Generator[TimedCounter]:
        """The counter for a block, at whose end the quantiles are read."""
        with TimedCounter(bed.plane.site.hub) as counter:
            yield counter
            self.p50_ms.append(counter.quantile_ms(0.50))
            self.p99_ms.append(counter.quantile_ms(0.99))


def alone(times: Times, *, is_batching: bool = True) -> Contender:
    """kube-scheduler by itself."""

    @contextmanager
    def runs(bed: Bed) -> Generator[TimedCounter]:
        flags = () if is_batching else ("--feature-gates=OpportunisticBatching=false",)
        bed.plane.start_scheduler({}, flags=flags)
        with times.kept(bed) as counter:
            yield counter
        bed.running.daemons.end(KUBE_SCHEDULER)

    return Contender(ALONE if is_batching else UNBATCHED, "default-scheduler", runs)


@contextmanager
def extended(bed: Bed, config: dict[str, Json]) -> Generator[Scheduler]:
    """kube-scheduler with the extender, which is ready before it starts."""
    grant(bed.running.client, "extender")
    ours = {"mode": "extender"} | config.get("scheduler", {})
    settings = {"port": PORT} | config.get("extender", {})
    extender = Scheduler(bed.plane, {"scheduler": ours, "extender": settings, "lease": {"enable": False}})
    extender.start()
    extender.wait_ready()
    bed.plane.start_scheduler({"extenders": [extender_entry(URL)]})
    yield extender
    bed.running.daemons.end(KUBE_SCHEDULER)
    extender.end()


def with_bare(times: Times) -> Contender:
    """kube-scheduler that asks an extender which says nothing."""

    @contextmanager
    def runs(bed: Bed) -> Generator[TimedCounter]:
        daemons, hub = bed.plane.daemons, bed.plane.site.hub
        daemons.start(BARE, [sys.executable, BARE_PROGRAM, str(PORT)])
        daemons.wait_for(f"{BARE} listens", lambda: network.answers(hub, "127.0.0.1", PORT))
        bed.plane.start_scheduler({"extenders": [extender_entry(URL)]})
        with times.kept(bed) as counter:
            yield counter
        daemons.end(KUBE_SCHEDULER)
        daemons.end(BARE)

    return Contender(WITH_BARE, "default-scheduler", runs)


@dataclass
class Answered:
    """What the extender says of itself after each run: answers that were no help, as shares in per cent."""

    neutral: list[float] = field(default_factory=list[float])


def with_extender(times: Times, answered: Answered) -> Contender:
    """kube-scheduler that asks Stowplan with its default policy."""

    @contextmanager
    def runs(bed: Bed) -> Generator[TimedCounter]:
        with extended(bed, {}) as extender, times.kept(bed) as counter:
            yield counter
            bound = extender.metric("stowplan_extender_bindings_total")
            helped = sum(
                extender.metric("stowplan_extender_bindings_total", result=result)
                for result in ("best", "other")
            )
            answered.neutral.append(100 * (1 - helped / bound) if bound else 100.0)

    return Contender(WITH_EXTENDER, "default-scheduler", runs)


def run(*, quick: bool) -> list[Row]:
    """Measure in turns on one cluster; `quick` has 100 nodes, 500 pods and one turn.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
    """
    size = Size.of(quick=quick)
    with fake_bed(size) as bed:
        return [*_cost(bed, size), *_foresight(bed, size.nodes // 5, size.turns)]


# ---- cost ----


def _cost(bed: Bed, size: Size) -> list[Row]:
    times = {name: Times() for name in (ALONE, WITH_EXTENDER, UNBATCHED, WITH_BARE)}
    answered = Answered()
    contenders = [
        alone(times[ALONE]),
        with_extender(times[WITH_EXTENDER], answered),
        alone(times[UNBATCHED], is_batching=False),
        with_bare(times[WITH_BARE]),
    ]
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn, contender in in_turns(contenders, size.turns):
        rates[contender.name].append(full_queue(bed, contender))
        p99_ms = times[contender.name].p99_ms[-1]
        print(
            f"  {turn}: {contender.name} {rates[contender.name][-1]:.1f} pods/s, p99 {p99_ms:.1f} ms",
            flush=True,
        )
    return [*_rate_rows(rates, size), *_time_rows(times, size), *_other_rows(bed, answered)]


def _rate_rows(rates: dict[str, list[float]], size: Size) -> list[Row]:
    rows: list[Row] = []
    for name, other, words in (
        ("full-queue", ALONE, "kube-scheduler with the extender, all pods there before it starts"),
        ("full-queue-unbatched", UNBATCHED, "the same, beside kube-scheduler with batches switched off"),
        ("full-queue-bare", WITH_BARE, "the same, beside kube-scheduler with an extender that says nothing"),
    ):
        ours, what = rates[WITH_EXTENDER], f"{words}: {size}"
        rows.append(rate_row(ours, rates[other], name=f"extender/{name}", what=what, peer=other))
        rows.append(
            Row.of(
                _longer(ours, rates[other]),
                name=f"extender/{name.replace('full-queue', 'more-time')}",
                what=f"how much longer it takes with the extender than kube-scheduler {_how(other)}: {size}",
                unit="%",
            )
        )
    floor = _longer(rates[WITH_BARE], rates[ALONE])
    what = f"how much longer it takes with an extender that says nothing than alone: {size}"
    rows.append(Row.of(floor, name="extender/more-time-of-any", what=what, unit="%"))
    return rows


def _longer(rates: Sequence[float], others: Sequence[float]) -> Estimate:
    """How much longer the same pods take at `rates` than at `others`, pair by pair, in per cent."""
    return median_ci95([100 * (other / rate - 1) for rate, other in zip(rates, others, strict=True)])


def _how(name: str) -> str:
    return "alone" if name == ALONE else name


def _time_rows(times: dict[str, Times], size: Size) -> list[Row]:
    ours, theirs = times[WITH_EXTENDER], times[ALONE]
    rows: list[Row] = []
    for quantile_name, mine_ms, others_ms in (
        ("p50", ours.p50_ms, theirs.p50_ms),
        ("p99", ours.p99_ms, theirs.p99_ms),
    ):
        added = median_ci95([mine - other for mine, other in zip(mine_ms, others_ms, strict=True)])
        rows.append(
            Row.of(
                added,
                name=f"extender/added-{quantile_name}",
                what=f"{quantile_name} of kube-scheduler's time for a pod, what the extender adds: {size}",
                unit="ms",
                note=f"{median(mine_ms):.2f} ms with, {median(others_ms):.2f} ms without",
            )
        )
    return rows


def _other_rows(bed: Bed, answered: Answered) -> list[Row]:
    used = bed.cpu_ms_per_pod[WITH_EXTENDER]
    return [
        Row.of(
            median_ci95(used[NAME]),
            name="extender/cpu",
            what="processor time of the extender's process per pod: answers, and following the cluster",
            unit="ms",
        ),
        Row.of(
            median_ci95(answered.neutral),
            name="extender/no-help",
            what="pods that were placed with no preference of the extender's: late or neutral answers",
            unit="%",
        ),
    ]


# ---- foresight ----


def _foresight(bed: Bed, pods: int, turns: int) -> list[Row]:
    shared: dict[float, list[float]] = {2.0: [], 0.0: []}
    for turn in range(turns):
        for lifetime_s in sorted(shared, reverse=turn % 2 == 0):
            shared[lifetime_s].append(_shared_nodes(bed, pods, lifetime_s))
            print(
                f"  {turn}: foreseen for {lifetime_s:g} s: {shared[lifetime_s][-1]:.1f} % share a node",
                flush=True,
            )
    ours, theirs = median_ci95(shared[2.0]), median(shared[0.0])
    return [_foresight_row(ours, theirs, pods)]


def _foresight_row(ours: Estimate, theirs: float, pods: int) -> Row:
    return Row(
        name="extender/herding",
        what=f"pods of a burst of {pods} that share a node where each could have its own",
        unit="%",
        median=ours.median,
        ci95_low=ours.low,
        ci95_high=ours.high,
        samples=ours.samples,
        peer="without foresight",
        peer_median=theirs,
    )


def _shared_nodes(bed: Bed, pods: int, lifetime_s: float) -> float:
    """Return how many of a burst's pods share a node with another, in per cent."""
    config: dict[str, Json] = {"scheduler": {"policy": "heft"}, "extender": {"in_flight_s": lifetime_s}}
    with bed.namespace() as namespace:
        with extended(bed, config), TheirCounter(bed.plane.site.hub) as counter:
            bed.create_pods(namespace, pods, "default-scheduler")
            follow(counter.read, pods)
        with bulk.Connection(bed.plane) as connection:
            listed = connection.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    on = Tally(pod["spec"]["nodeName"] for pod in listed)
    return 100 * sum(count for count in on.values() if count > 1) / pods
