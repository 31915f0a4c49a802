"""Values of Stowplan's own YAML files: quantities, rates and durations, each checked with its path.

Amounts and rates are Kubernetes quantities ("500m", "2", "1.5Gi"); a rate is an amount per second, so a disk
of 250 MiB/s is written `250Mi` and a NIC of 25 Gbit/s `3.125G` (bytes, not bits). Durations are seconds, or
numbers with the units ms, s, m, h, d ("90s", "1h30m").
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final, TypeVar

import msgspec

from stowplan.core.domain import TaintEffect, parse_quantity
from stowplan.errors import InvalidFile, InvalidQuantity

__all__ = [
    "MOST_BYTES",
    "MOST_CORES",
    "MOST_RATE",
    "MOST_SECONDS",
    "Quantity",
    "Strict",
    "amount",
    "convert",
    "effect",
    "seconds",
]

Quantity = str | int | float
_T = TypeVar("_T")

MOST_SECONDS: Final = 1e9
"""Thirty years: a longer duration is a wrong unit. So are the amounts below."""
MOST_CORES: Final = 1e6
MOST_BYTES: Final = 2.0**60
MOST_RATE: Final = 2.0**50
_UNIT_S: Final = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", re.ASCII)


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A mapping of our YAML: keys in camelCase, an unknown key is an error."""


def convert(document: object, kind: type[_T], name: str, *, guide: str = "docs/FORMATS.md") -> _T:
    """Return a parsed YAML document as `kind`; unknown keys and wrong types are refused with their path.

    Args:
        document: what the YAML parser gave.
        kind: what it is to be.
        name: of the file, for messages.
        guide: page that describes the form, for messages.

    Raises:
        InvalidFile: the document does not have the form; the message names file and field.
    """
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: {error}; see {guide}") from None


def amount(quantity: Quantity, where: str, *, most: float) -> float:
    """Return a quantity as a number of its unit (bytes, cores …); `where` is its path in messages.

    Raises:
        InvalidQuantity: not a quantity, negative, NaN, or above `most`, which no machine has.
    """
    try:
        number = float(parse_quantity(quantity))
    except InvalidQuantity as error:
        raise InvalidQuantity(f"{where}: {error}") from None
    if number > most:
        raise InvalidQuantity(
            f"{where}: {quantity!r} is more than any machine has ({most:g}); check its unit"
        )
    return number


def seconds(duration: Quantity, where: str) -> float:
    """Return a duration in seconds.

    Raises:
        InvalidQuantity: not a duration, negative, NaN, or longer than thirty years.
    """
    number = math.nan
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        number = float(duration)
    elif isinstance(duration, str):
        parts = _PART.findall(duration)
        if parts and "".join(digits + unit for digits, unit in parts) == duration:
            number = float(sum(Fraction(digits) * _UNIT_S[unit] for digits, unit in parts))
    if not 0.0 <= number <= MOST_SECONDS:
        raise InvalidQuantity(
            f"{where}: {duration!r} is no duration between 0 and {MOST_SECONDS:g} s; write seconds, or "
            "'90s', '1h30m'"
        )
    return number


def effect(name: str, where: str) -> TaintEffect:
    """Return a taint effect by its name in the API.

    Raises:
        InvalidFile: there is no such effect.
    """
    try:
        return TaintEffect(name)
    except ValueError:
        known = ", ".join(item.value for item in TaintEffect)
        raise InvalidFile(f"{where}: effect is {name!r}; it must be one of {known}") from None
