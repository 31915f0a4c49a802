"""What the webhook counts, in a registry of its own or in another's.

Labels are bounded: the path that was asked, the kind of object, the result; never names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from stowplan.serve.metrics import Collectors

__all__ = ["WebhookMetrics"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics:
    """The collectors of one webhook."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register them; in a new registry by default."""
        self.registry = registry or CollectorRegistry()
        make = Collectors(self.registry)
        self._requests = make.counter(
            "webhook_requests", "Admission requests, by what became of them.", "webhook", "kind", "result"
        )
        self._seconds = make.histogram(
            "webhook_request_duration_seconds",
            "From the last byte of a request until its answer is ready.",
            _SECONDS,
            "webhook",
        )
        self._waiting = make.gauge("webhook_requests_in_flight", "Requests that are being answered.")
        self._expiry = make.gauge(
            "webhook_certificate_expiry_timestamp_seconds", "When the serving certificate expires."
        )
        self._degraded = make.gauge(
            "webhook_degraded", "1 while a component works in a lesser way.", "component"
        )

    def answered(self, webhook: str, kind: str, result: str, duration_s: float) -> None:
        """Count a request and the seconds that it took."""
        self._requests.labels(webhook, kind, result).inc()
        self._seconds.labels(webhook).observe(duration_s)

    def unread(self, webhook: str, result: str) -> None:
        """Count a request that could not be read at all: `bad`, `large`, `slow`."""
        self._requests.labels(webhook, "", result).inc()

    def in_flight(self, count_of: Callable[[], int]) -> None:
        """Read from now on from `count_of` how many requests are being answered."""
        self._waiting.set_function(count_of)

    def expires(self, at_s: float) -> None:
        """Note when the serving certificate expires, seconds since the epoch."""
        self._expiry.set(at_s)

    def degraded(self, component: str, reason: str) -> None:
        """Note that a component works in a lesser way, and why; an empty reason: it is well again."""
        self._degraded.labels(component).set(1.0 if reason else 0.0)
