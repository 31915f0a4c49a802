"""What a pod on a fake node does, written as its annotations, and when it did it, read from them.

The stages in `stages/` obey these annotations; each says there what it does. A pod's status has whole seconds
only, so the stages keep the true times as annotations too.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

DOMAIN = "stowplan.dev"
USE = "kwok.x-k8s.io/usage-"  # kwok's own names


@dataclass(frozen=True)
class Times:
    """When a pod on a fake node ran, in seconds since the epoch; None for what has not happened."""

    started_s: float | None
    finished_s: float | None

    @property
    def duration_s(self) -> float:
        """How long it ran, in seconds.

        Raises:
            ValueError: It has not ended.
        """
        if self.started_s is None or self.finished_s is None:
            raise ValueError("the pod has not run to its end yet, so it has no duration")
        return self.finished_s - self.started_s


@dataclass(frozen=True, kw_only=True)
class PodScript:
    """What a pod does on a fake node.

    Attributes:
        duration_s: How long its containers run. By default one second, or for ever with restartPolicy Always.
        start_delay_s: How long it is in ContainerCreating.
        init_duration_s: How long its first ordinary init container runs; by default no time.
        exit_code: Of the container kubectl.kubernetes.io/default-container, or of the first.
        reason: Why that container ended, such as `OOMKilled`, or `Evicted` for the pod.
        is_stubborn: Whether it ignores SIGTERM, so that a deletion takes its whole grace.
        cpu_cores: CPU that each container uses while it runs.
        memory_bytes: Memory that each container uses while it runs.
    """

    duration_s: float | None = None
    start_delay_s: float | None = None
    init_duration_s: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    is_stubborn: bool = False
    cpu_cores: float | None = None
    memory_bytes: int | None = None

    def annotations(self) -> dict[str, str]:
        """It as the pod's annotations."""
        wanted: dict[str, str | None] = {
            f"{DOMAIN}/duration": _duration(self.duration_s),
            f"{DOMAIN}/start-delay": _duration(self.start_delay_s),
            f"{DOMAIN}/init-duration": _duration(self.init_duration_s),
            f"{DOMAIN}/exit-code": None if self.exit_code is None else str(self.exit_code),
            f"{DOMAIN}/reason": self.reason,
            f"{DOMAIN}/ignores-term": "true" if self.is_stubborn else None,
            f"{USE}cpu": None if self.cpu_cores is None else f"{self.cpu_cores * 1000:.0f}m",
            f"{USE}memory": None if self.memory_bytes is None else str(self.memory_bytes),
        }
        return {name: value for name, value in wanted.items() if value is not None}


def times(annotations: Mapping[str, str] | None) -> Times:
    """When a pod with these annotations started and finished, to the millisecond and better."""
    known = annotations or {}
    return Times(_instant(known.get(f"{DOMAIN}/started-at")), _instant(known.get(f"{DOMAIN}/finished-at")))


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds * 1000:.0f}ms"


def _instant(text: str | None) -> float | None:
    return dt.datetime.fromisoformat(text).timestamp() if text else None
