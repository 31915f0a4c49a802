"""What an extender counts. Labels are bounded: verbs, causes, results."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry

from stowplan.serve.extender.duty import Cause
from stowplan.serve.metrics import Collectors, exponential_buckets

__all__ = ["Binding", "ExtenderMetrics"]

_SECONDS: Final = exponential_buckets(0.0001, 2, 15)


class Binding(StrEnum):
    """Where kube-scheduler put a pod."""

    BEST = "best"
    """On the node that Stowplan thought best, or on one as good."""
    OTHER = "other"
    NEUTRAL = "neutral"
    """Stowplan was asked and had no preference, or could not tell."""
    UNASKED = "unasked"
    """There was a choice, and Stowplan was not asked."""


class ExtenderMetrics:
    """The collectors of one extender."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them in `registry`."""
        self._make = make = Collectors(registry)
        self._seconds = make.histogram(
            "extender_request_duration_seconds",
            "From the whole request to the whole answer, by verb.",
            _SECONDS,
            "verb",
        )
        self._neutral = make.counter(
            "extender_neutral_answers", "Answers that prefer no node, by cause.", "cause"
        )
        self._bad = make.counter(
            "extender_bad_requests", "Requests that could not be understood, by verb.", "verb"
        )
        self._abandoned = make.counter(
            "extender_abandoned_requests", "Requests whose caller hung up before they were looked at.", "verb"
        )
        self._refused = make.counter("extender_refused_nodes", "Nodes that the rule table refused to pods.")
        self._bindings = make.counter(
            "extender_bindings",
            "Pods that were given a node, by what the extender had said of it.",
            "result",
        )
        self._in_flight = make.gauge(
            "extender_in_flight_pods", "Pods that were scored and are foreseen on a node, but not seen there."
        )

    def answered(self, verb: str, duration_s: float) -> None:
        """Count an answer and how long it took in seconds."""
        self._seconds.labels(verb).observe(duration_s)

    def neutral(self, cause: Cause) -> None:
        """Count a neutral answer."""
        self._neutral.labels(cause.value).inc()

    def bad_request(self, verb: str) -> None:
        """Count a request that could not be understood."""
        self._bad.labels(verb).inc()

    def abandoned(self, verb: str) -> None:
        """Count a request whose caller hung up before it was looked at."""
        self._abandoned.labels(verb).inc()

    def refused(self, nodes: int) -> None:
        """Count nodes that were refused to one pod."""
        self._refused.inc(nodes)

    def bound(self, result: Binding) -> None:
        """Count a pod that was given a node."""
        self._bindings.labels(result.value).inc()

    def in_flight(self, count: Callable[[], int]) -> None:
        """Read from now on from `count` how many pods are foreseen."""
        self._in_flight.set_function(count)

    def certificate_expiry(self) -> Callable[[float], None]:
        """Return what notes when the serving certificate expires, seconds since the epoch.

        It is registered now: without TLS there is none, and a 0 would read as one that has long expired.
        """
        return self._make.gauge(
            "extender_certificate_expiry_timestamp_seconds", "When the serving certificate expires."
        ).set
