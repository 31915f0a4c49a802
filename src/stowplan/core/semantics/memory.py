"""Memory of a node's pods or a container: what is in use, what is page cache, whether the files agree.

On cgroup v2 `memory.current` includes the page cache, and so does the `container_memory_usage_bytes` made
from it. What cannot be taken back at once is the working set, memory.current − inactive_file, as the kubelet
counts it for evictions. When memory.current is more than 1.8 times the working set, most of the memory is
cache, and the task is better off where there is more memory (R10; the factor is the article's).

Two files are compared before either is believed: memory.current must be the sum of anon, file, kernel and
sock of memory.stat (Linux, Documentation/admin-guide/cgroup-v2.rst), up to a tolerance: the kernel charges
pages in batches per CPU and does not read the two files at one instant. Where they disagree, every value that
follows
from them is impossible, with the difference as the bound that was broken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.readings import MemoryReading
from stowplan.core.semantics.value import Unknown, Value, measured
from stowplan.errors import InvalidInput

__all__ = ["MemoryRule", "MemoryValues", "memory_values"]

_PARTS: Final = ("anon_bytes", "file_bytes", "kernel_bytes", "sock_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """When two files agree, and when cache makes most of the memory."""

    cache_heavy_ratio: float = 1.8
    """memory.current over working set."""
    tolerance_share: float = 0.05
    """Of memory.current; a proposal."""
    tolerance_bytes: float = 64.0 * 2**20
    """Beside the share: 256 KiB are charged ahead per CPU, so this is what 256 CPUs may hold."""

    def __post_init__(self) -> None:
        """Refuse a rule without meaning.

        Raises:
            InvalidInput: the ratio is not above 1, or a tolerance negative.
        """
        checks = (
            ("cache_heavy_ratio", 1.0 < self.cache_heavy_ratio < math.inf),
            ("tolerance_share", 0.0 <= self.tolerance_share < 1.0),
            ("tolerance_bytes", 0.0 <= self.tolerance_bytes < math.inf),
        )
        for name, holds in checks:
            if not holds:
                raise InvalidInput(f"MemoryRule.{name} is {getattr(self, name)}; see its range in the class")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryValues:
    """What one reading of memory means; the catalogue says what each value is."""

    current_bytes: Value
    working_set_bytes: Value
    anon_bytes: Value
    cache_bytes: Value
    cache_share: Value
    working_set_share: Value
    is_cache_heavy: Value

    @property
    def values(self) -> tuple[Value, ...]:
        """All of them."""
        return (
            self.current_bytes,
            self.working_set_bytes,
            self.anon_bytes,
            self.cache_bytes,
            self.cache_share,
            self.working_set_share,
            self.is_cache_heavy,
        )


def _amount(reading: MemoryReading, name: str) -> float | Unknown:
    """Return a field of the reading as a possible amount of memory."""
    amount: float | None = getattr(reading, name)
    if amount is None:
        return Unknown(reading.why_missing(name))
    most = quantity("memory_current_bytes").high
    if not 0.0 <= amount <= most:
        return Unknown(f"{name} is {amount:g}", f"0 ≤ {name} ≤ {most:g}")
    return float(amount)


def _disagreement(reading: MemoryReading, rule: MemoryRule) -> Unknown | None:
    """Return why memory.current and memory.stat contradict each other, or None when they do not.

    A part that was not read counts as 0: then the sum may be too low, but never too high.
    """
    current = _amount(reading, "current_bytes")
    if isinstance(current, Unknown):
        return current if current.broken_bound else None
    parts = {name: _amount(reading, name) for name in _PARTS}
    for part in parts.values():
        if isinstance(part, Unknown) and part.broken_bound:
            return part
    known = [part for part in parts.values() if not isinstance(part, Unknown)]
    total = math.fsum(known)
    allowed = rule.tolerance_share * current + rule.tolerance_bytes
    too_high = total - current > allowed
    too_low = current - total > allowed and len(known) == len(_PARTS)
    if too_high or too_low:
        return Unknown(
            f"memory.current is {current:.0f}, the parts of memory.stat add up to {total:.0f}",
            f"|memory.current − memory.stat| ≤ {allowed:.0f}",
        )
    inactive = _amount(reading, "inactive_file_bytes")
    file_bytes = parts["file_bytes"]
    if isinstance(inactive, Unknown):
        return inactive if inactive.broken_bound else None
    if not isinstance(file_bytes, Unknown) and inactive - file_bytes > allowed:
        return Unknown(f"inactive_file is {inactive:.0f}, file {file_bytes:.0f}", "inactive_file ≤ file")
    return None


def _share(part: float | Unknown, whole: float | Unknown, what: str) -> float | Unknown:
    if isinstance(part, Unknown):
        return part
    if isinstance(whole, Unknown):
        return whole
    return part / whole if whole > 0.0 else Unknown(f"{what} is 0")


def memory_values(reading: MemoryReading, rule: MemoryRule) -> MemoryValues:
    """Return what a reading of memory means; see the module.

    The working set is at least 0, though the two files may be read at instants between which it is not. The
    share of the limit is missing where there is no limit.
    """
    disagreement = _disagreement(reading, rule)

    def value(name: str, number: float | Unknown) -> Value:
        told = disagreement if disagreement is not None else number
        return measured(name, told, source=reading.source, measured_s=reading.taken.time_s)

    current, inactive = _amount(reading, "current_bytes"), _amount(reading, "inactive_file_bytes")
    working: float | Unknown
    heavy: float | Unknown
    if isinstance(current, Unknown):
        working = heavy = current
    elif isinstance(inactive, Unknown):
        working = heavy = inactive
    else:
        working = max(current - inactive, 0.0)
        heavy = float(current > rule.cache_heavy_ratio * working)
    cache = _amount(reading, "file_bytes")
    share = _share(cache, current, "memory.current")
    return MemoryValues(
        current_bytes=value("memory_current_bytes", current),
        working_set_bytes=value("memory_working_set_bytes", working),
        anon_bytes=value("memory_anon_bytes", _amount(reading, "anon_bytes")),
        cache_bytes=value("memory_cache_bytes", cache),
        # Cache and sum are not read at one instant: within the tolerance, all of it is cache.
        cache_share=value("memory_cache_share", share if isinstance(share, Unknown) else min(share, 1.0)),
        working_set_share=value(
            "memory_working_set_share", _share(working, _amount(reading, "limit_bytes"), "the limit")
        ),
        is_cache_heavy=value("memory_is_cache_heavy", heavy),
    )
