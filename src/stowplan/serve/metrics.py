"""What the scheduler counts, under kube-scheduler's names with our prefix, so that dashboards carry over.

`stowplan_pending_pods{queue}` is `scheduler_pending_pods{queue}`, and so on: same labels, same buckets. What
kube-scheduler has no name for follows the conventions of Prometheus. Labels are bounded: results, queues,
filters, components; never pods, nodes or workflows.

Source of names and buckets: kubernetes pkg/scheduler/metrics/metrics.go, 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["Collectors", "SchedulerMetrics", "exponential_buckets"]

PREFIX = "stowplan"


def exponential_buckets(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` upper bounds, each `factor` times the one before."""
    return tuple(first * factor**power for power in range(count))


_SECONDS = exponential_buckets(0.001, 2, 15)
_SLI_SECONDS = exponential_buckets(0.01, 2, 20)
_ATTEMPTS = exponential_buckets(1, 2, 5)
_VICTIMS = exponential_buckets(1, 2, 7)


class Collectors:
    """Makes collectors with our prefix in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make them in `registry`."""
        self._registry = registry

    def counter(self, name: str, words: str, *labels: str) -> Counter:
        """Return a counter, which only grows."""
        return Counter(name, words, labels, namespace=PREFIX, registry=self._registry)

    def gauge(self, name: str, words: str, *labels: str) -> Gauge:
        """Return a gauge."""
        return Gauge(name, words, labels, namespace=PREFIX, registry=self._registry)

    def histogram(self, name: str, words: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """Return a histogram with these upper bounds."""
        return Histogram(name, words, labels, namespace=PREFIX, registry=self._registry, buckets=buckets)


class SchedulerMetrics:
    """The collectors of one scheduler process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None, *, profile: str = "stowplan") -> None:
        """Register them.

        Args:
            registry: where; a new one by default.
            profile: the name of the scheduler, as kube-scheduler labels its profiles.
        """
        self.registry = registry or CollectorRegistry()
        self._profile = profile
        make = Collectors(self.registry)
        self._attempts = make.counter(
            "schedule_attempts", "Attempts to place pods, by result.", "result", "profile"
        )
        self._attempt_s = make.histogram(
            "scheduling_attempt_duration_seconds",
            "From the beginning of a pod's cycle until its outcome is known, binding included.",
            _SECONDS,
            "result",
            "profile",
        )
        self._algorithm_s = make.histogram(
            "scheduling_algorithm_duration_seconds", "One cycle over all waiting pods.", _SECONDS
        )
        self._sli_s = make.histogram(
            "pod_scheduling_sli_duration_seconds",
            "From the first moment at which a pod could be placed until it was bound.",
            _SLI_SECONDS,
            "attempts",
        )
        self._pod_attempts = make.histogram(
            "pod_scheduling_attempts", "Attempts until a pod was bound.", _ATTEMPTS
        )
        self._pending = make.gauge("pending_pods", "Pods that wait, by queue.", "queue")
        self._incoming = make.counter(
            "queue_incoming_pods", "Pods that entered a queue, by what brought them.", "queue", "event"
        )
        self._unschedulable = make.gauge(
            "unschedulable_pods", "Pods that a filter keeps off every node.", "plugin", "profile"
        )
        self._cache = make.gauge("cache_size", "Objects that are held, by type.", "type")
        self._victims = make.histogram(
            "preemption_victims", "Pods that were ended for one of higher priority.", _VICTIMS
        )
        self._preemptions = make.counter("preemption_attempts", "Searches for pods that could make room.")
        self._preemption_s = make.histogram(
            "preemption_evaluation_duration_seconds", "One search for pods that could make room.", _SECONDS
        )
        self._violations = make.counter(
            "preemption_pdb_violations", "Pods that were ended although a disruption budget protects them."
        )
        self._lost = make.counter("lost_bindings", "Placements that did not become a fact, by why.", "reason")
        self._rejected = make.counter(
            "kubelet_rejections", "Pods that a kubelet refused after binding, by its reason.", "reason"
        )
        self._dropped = make.counter(
            "api_writes_dropped", "Writes to the API server that were given up, by kind.", "kind"
        )
        self._in_flight = make.gauge("bindings_in_flight", "Placements that are being carried out.")
        self._degraded = make.gauge("degraded", "1 while a component works in a lesser way.", "component")
        self._leader = make.gauge("leader", "1 while this instance leads.")
        self._degradations: dict[str, str] = {}

    # ---- attempts ----

    def attempted(self, result: str, duration_s: float, count: int = 1) -> None:
        """Count attempts: `scheduled`, `unschedulable` or `error`, and how long they took in seconds.

        Pods that one cycle refuses together are `count` attempts of one duration.
        """
        self._attempts.labels(result, self._profile).inc(count)
        self._attempt_s.labels(result, self._profile).observe(duration_s)

    def cycled(self, duration_s: float) -> None:
        """Count a cycle and how long it took in seconds."""
        self._algorithm_s.observe(duration_s)

    def bound(self, attempts: int, waited_s: float) -> None:
        """Count a pod that was bound after so many attempts, so many seconds after it could be placed."""
        self._sli_s.labels(str(attempts) if attempts < 15 else "15+").observe(waited_s)
        self._pod_attempts.observe(attempts)

    def lost(self, reason: str) -> None:
        """Count a placement that did not become a fact: `elsewhere`, `gone`, `refused`, `unknown`."""
        self._lost.labels(reason).inc()

    def kubelet_rejected(self, reason: str) -> None:
        """Count a pod that its kubelet refused, for example with `OutOfcpu`."""
        self._rejected.labels(reason).inc()

    def in_flight(self, count: int) -> None:
        """Note how many placements are being carried out."""
        self._in_flight.set(count)

    def write_dropped(self, kind: str, count: int = 1) -> None:
        """Count writes that were given up: `condition`, `event`, `snapshot`."""
        self._dropped.labels(kind).inc(count)

    # ---- queues and cache ----

    def queued(self, queue: str, event: str, count: int = 1) -> None:
        """Count pods that entered `active`, `backoff`, `unschedulable` or `gated`."""
        self._incoming.labels(queue, event).inc(count)

    def pending(self, count_of: Callable[[str], int]) -> None:
        """Read the lengths of the queues from now on from `count_of(queue)`, when they are asked for."""
        for queue in ("active", "backoff", "unschedulable", "gated"):
            self._pending.labels(queue).set_function(lambda queue=queue: count_of(queue))

    def cache(self, count_of: Callable[[str], int]) -> None:
        """Read the sizes of the cache from now on from `count_of(type)`: nodes, pods, assumed_pods."""
        for kind in ("nodes", "pods", "assumed_pods"):
            self._cache.labels(kind).set_function(lambda kind=kind: count_of(kind))

    def unschedulable(self, count_of: Mapping[str, int]) -> None:
        """Note how many waiting pods each filter keeps off every node; filters left out keep none."""
        self._unschedulable.clear()
        for name, count in count_of.items():
            self._unschedulable.labels(name, self._profile).set(count)

    # ---- preemption ----

    def preemption_attempted(self) -> None:
        """Count a search for pods that could make room."""
        self._preemptions.inc()

    def preemption_evaluated(self, duration_s: float) -> None:
        """Count how long a search took in seconds."""
        self._preemption_s.observe(duration_s)

    def preempted(self, victims: int, violations: int = 0) -> None:
        """Count the pods that make room for one, and how many of them a disruption budget protects."""
        self._victims.observe(victims)
        self._violations.inc(violations)

    # ---- state ----

    def degraded(self, component: str, reason: str) -> None:
        """Note that a component works in a lesser way, and why; an empty reason: it is well again."""
        self._degraded.labels(component).set(1 if reason else 0)
        if reason:
            self._degradations[component] = reason
        else:
            self._degradations.pop(component, None)

    @property
    def degradations(self) -> Mapping[str, str]:
        """What works in a lesser way now, and why, by component."""
        return self._degradations

    def leader(self, is_leader: Callable[[], bool]) -> None:
        """Read from now on from `is_leader` whether this instance leads."""
        self._leader.set_function(lambda: float(is_leader()))
