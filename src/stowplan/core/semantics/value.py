"""A value with its quality: number, unit, source, quality and age go together, and unknown is never a zero.

Four qualities. *Present*: measured, possible and young enough. *Missing*: not measured here, with the reason.
*Stale*: older than the quantity's limit. *Impossible*: outside a physical bound, with the bound that it
broke. Only a present value has a `known` number. A measurement, however odd, raises no error: it becomes a
quality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.quantities import Source, Unit
from stowplan.errors import InvalidInput

__all__ = ["Quality", "Unknown", "Value", "best_of", "bounded", "measured", "missing"]

_CLOCKS_MAY_DIFFER_S: Final = 1.0


class Quality(StrEnum):
    """What a value is worth."""

    PRESENT = "present"
    MISSING = "missing"
    STALE = "stale"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands where a number would: why there is none, and which bound was broken if one was."""

    reason: str
    broken_bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A quantity as it was measured.

    Attributes:
        quantity: name in the catalogue.
        number: in `unit`; None when missing. Of a stale or impossible value it is what was measured, to be
            shown and not to be used: use `known`.
        source: what it was read from.
        quality: what it is worth.
        measured_s: time of the (later) reading, seconds; None when there was never one.
        age_s: seconds between the reading and `at`; None when there was never one.
        reason: why it is not present, or what to keep in mind; for people.
        broken_bound: the physical bound that an impossible value broke, for example "≤ 1".
    """

    quantity: str
    number: float | None
    source: Source
    quality: Quality
    measured_s: float | None = None
    age_s: float | None = None
    reason: str = ""
    broken_bound: str = ""

    @property
    def unit(self) -> Unit:
        """Unit of the number."""
        return quantity(self.quantity).unit

    @property
    def known(self) -> float | None:
        """The number when the value is present, else None."""
        return self.number if self.quality is Quality.PRESENT else None

    def derive(self, name: str, function: Callable[[float], float]) -> Value:
        """Return the quantity `name` that follows from this one, with its source, age and quality.

        `function` is applied to a present or stale number; where there is none, there is none of `name`.

        Raises:
            UnknownName: there is no such quantity.
        """
        if self.number is None or self.quality in {Quality.MISSING, Quality.IMPOSSIBLE}:
            return replace(self, quantity=quantity(name).name, number=None)
        checked = bounded(name, function(self.number))
        if not isinstance(checked, Unknown):
            return replace(self, quantity=name, number=checked)
        quality = Quality.IMPOSSIBLE if checked.broken_bound else Quality.MISSING
        return replace(
            self,
            quantity=name,
            number=None,
            quality=quality,
            reason=checked.reason,
            broken_bound=checked.broken_bound,
        )

    def at(self, now_s: float) -> Value:
        """Return the value as it stands at `now_s`: its age, and stale when that exceeds the limit.

        A reading from the future, by more than a second, breaks the bound "age ≥ 0": one clock was set.

        Raises:
            InvalidInput: `now_s` is not a finite number.
        """
        if not math.isfinite(now_s):
            raise InvalidInput(f"now_s is {now_s}; it must be a finite number of seconds")
        if self.measured_s is None:
            return self
        age_s = now_s - self.measured_s
        if self.quality not in {Quality.PRESENT, Quality.STALE}:
            return replace(self, age_s=age_s)
        if age_s < -_CLOCKS_MAY_DIFFER_S:
            broken = f"read {-age_s:g} s in the future"
            return replace(
                self, age_s=age_s, quality=Quality.IMPOSSIBLE, reason=broken, broken_bound="age ≥ 0"
            )
        limit_s = quantity(self.quantity).stale_after_s
        if age_s > limit_s:
            old = f"read {age_s:g} s ago, the limit is {limit_s:g} s"
            return replace(self, age_s=age_s, quality=Quality.STALE, reason=old)
        return replace(self, age_s=max(age_s, 0.0))


def missing(name: str, reason: str, *, source: Source, measured_s: float | None = None) -> Value:
    """Return a missing value of the quantity `name`.

    Raises:
        UnknownName: there is no such quantity.
    """
    return Value(
        quantity=quantity(name).name,
        number=None,
        source=source,
        quality=Quality.MISSING,
        measured_s=measured_s,
        age_s=None if measured_s is None else 0.0,
        reason=reason,
    )


def bounded(name: str, number: float) -> float | Unknown:
    """Return `number` within the physical bounds of the quantity `name`, or the bound that it broke."""
    if math.isnan(number):
        return Unknown(f"{name} is not a number")
    about = quantity(name)
    if number > about.high:
        if number <= about.high * (1.0 + about.slack):
            return about.high
        return Unknown(f"{name} is {number:g}", f"≤ {about.high:g}")
    if number < about.low:
        return Unknown(f"{name} is {number:g}", f"≥ {about.low:g}")
    return number


def measured(
    name: str, number: float | Unknown, *, source: Source, measured_s: float, reason: str = ""
) -> Value:
    """Return what was measured of the quantity `name`, with the quality that its number deserves.

    Args:
        name: of a quantity in the catalogue.
        number: in the quantity's unit, or why there is none.
        source: what it was read from.
        measured_s: time of the reading, seconds.
        reason: what to keep in mind of a present value.

    Raises:
        UnknownName: there is no such quantity.
    """
    checked = number if isinstance(number, Unknown) else bounded(name, number)
    if not isinstance(checked, Unknown):
        return Value(
            quantity=name,
            number=checked,
            source=source,
            quality=Quality.PRESENT,
            measured_s=measured_s,
            age_s=0.0,
            reason=reason,
        )
    if not checked.broken_bound:
        return missing(name, checked.reason, source=source, measured_s=measured_s)
    return Value(
        quantity=quantity(name).name,
        number=None if isinstance(number, Unknown) else number,
        source=source,
        quality=Quality.IMPOSSIBLE,
        measured_s=measured_s,
        age_s=0.0,
        reason=checked.reason,
        broken_bound=checked.broken_bound,
    )


def best_of(values: Sequence[Value]) -> Value:
    """Return the value to go by of several of one quantity from different sources.

    Present before all others; then the source that the catalogue names first; then the younger one.

    Raises:
        InvalidInput: there are none, or they are of different quantities.
    """
    names = {value.quantity for value in values}
    if len(names) != 1:
        raise InvalidInput(f"the best of values of {sorted(names)} was asked for; give one quantity's")
    order = {source: rank for rank, source in enumerate(quantity(names.pop()).sources)}

    def rank(value: Value) -> tuple[bool, int, float]:
        age_s = math.inf if value.age_s is None else value.age_s
        return value.quality is not Quality.PRESENT, order.get(value.source, len(order)), age_s

    return min(values, key=rank)
