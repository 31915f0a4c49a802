"""What a pod requests of a node, from what its containers request: kube-scheduler's arithmetic.

Source: component-helpers `resource/helpers.go` (`PodRequests`), KEP-753 (sidecars), KEP-2837 (pod-level
resources). Amounts are exact (`Fraction`, in whole units) and rounded up once, at the end: cpu to
milli-cores, everything else to whole units.

    containers run side by side               → their sum, sidecars included init container i runs before
    them         → its own request + the sidecars that started before it the pod needs the largest of these,
    by resource; pod-level requests for cpu, memory and huge pages replace it; the overhead of the sandbox
    comes on top
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from stowplan.core.domain import CPU, EPHEMERAL_STORAGE, MEMORY, Resources

__all__ = ["Amounts", "Container", "PodRequests", "aggregate", "effective_requests", "is_counted", "maximum"]

Amounts = Mapping[str, Fraction]
"""Exact amounts by resource name; cpu in cores, memory in bytes."""

_SCORED_DEFAULTS: Final[Amounts] = {CPU: Fraction(1, 10), MEMORY: Fraction(200 * 1024 * 1024)}
"""What scoring assumes of a container that requests none (100 milli-cores, 200 MiB)."""


def is_counted(name: str) -> bool:
    """Tell whether the scheduler counts a resource of this name."""
    return (
        name in (CPU, MEMORY, EPHEMERAL_STORAGE)
        or "/" in name
        or name.startswith(("hugepages-", "attachable-volumes-"))
    )


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _add(total: dict[str, Fraction], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _raise(total: dict[str, Fraction], other: Amounts) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


@dataclass(frozen=True, slots=True)
class Container:
    """What one container requests; a sidecar is an init container that keeps running."""

    requests: Amounts
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodRequests:
    """Everything that goes into the request of a pod."""

    containers: Sequence[Container]
    init_containers: Sequence[Container] = ()
    overhead: Amounts = field(default_factory=dict[str, Fraction])
    pod_level: Amounts = field(default_factory=dict[str, Fraction])


def aggregate(
    containers: Sequence[Container], init_containers: Sequence[Container], missing: Amounts | None = None
) -> dict[str, Fraction]:
    """Return what the containers need together, by resource.

    `missing` stands in for what a container does not name.
    """
    total: dict[str, Fraction] = {}
    for container in containers:
        _add(total, {**(missing or {}), **container.requests})
    sidecars: dict[str, Fraction] = {}
    starting: dict[str, Fraction] = {}
    for container in init_containers:
        needs = {**(missing or {}), **container.requests}
        if container.is_sidecar:
            _add(total, needs)
            _add(sidecars, needs)
            _raise(starting, sidecars)
        else:
            alone = dict(needs)
            _add(alone, sidecars)
            _raise(starting, alone)
    _raise(total, starting)
    return total


def maximum(*amounts: Amounts) -> dict[str, Fraction]:
    """Return the largest of each resource."""
    total: dict[str, Fraction] = {}
    for one in amounts:
        _raise(total, one)
    return total


def _finished(pod: PodRequests, total: dict[str, Fraction]) -> dict[str, Fraction]:
    total.update({name: amount for name, amount in pod.pod_level.items() if _is_pod_level(name)})
    _add(total, pod.overhead)
    return total


def _rounded(name: str, amount: Fraction) -> int:
    scaled = amount * 1000 if name == CPU else amount
    return -(-scaled.numerator // scaled.denominator)


def effective_requests(*variants: PodRequests) -> tuple[Resources, int, int]:
    """Return what a pod requests, and the milli-cores and bytes that scoring counts.

    Several variants are those of a pod that is being resized (wanted, allocated, actual); the largest of
    their container sums counts. Overhead and pod-level requests are those of the first.

    Raises:
        InvalidQuantity: a sum does not fit in 63 bits.
    """
    first = variants[0]

    def total(missing: Amounts | None) -> dict[str, Fraction]:
        sums = [aggregate(pod.containers, pod.init_containers, missing) for pod in variants]
        return _finished(first, maximum(*sums))

    requested = total(None)
    has_pod_level = any(_is_pod_level(name) for name in first.pod_level)
    missing = {
        name: amount for name, amount in _SCORED_DEFAULTS.items() if not (has_pod_level and name in requested)
    }
    scored = total(missing) if missing else requested
    counted = {name: _rounded(name, amount) for name, amount in requested.items() if is_counted(name)}
    return (
        Resources(counted),
        _rounded(CPU, scored.get(CPU, Fraction(0))),
        _rounded(MEMORY, scored.get(MEMORY, Fraction(0))),
    )
