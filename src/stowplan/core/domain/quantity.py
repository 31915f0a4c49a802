"""Kubernetes resource quantities: text in, exact integers out.

Grammar and rounding follow the API's `resource.Quantity` (apimachinery, `pkg/api/resource/quantity.go`): a
decimal number followed by a binary suffix (Ki … Ei), a decimal suffix (n u m k M G T P E) or an exponent (e3,
E-2). Values finer than a nano-unit round up to one; `value` and `milli_value` round up to whole units and
milli-units. A bare `E` is exa, `E` followed by a number is an exponent. Amounts that do not fit in a signed
64-bit integer are refused here, where Kubernetes would silently cap them, because a capped request schedules
something else than what was asked for.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from stowplan.errors import InvalidQuantity

__all__ = ["MAX_INT64", "format_bytes", "format_cpu", "milli_value", "parse_quantity", "value"]

MAX_INT64: Final = 2**63 - 1

_MAX_EXPONENT: Final = (
    1000  # beyond any 63-bit amount; keeps hostile exponents from allocating gigabytes of digits
)
_SCALE: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))",
    re.ASCII,
)
_NANO: Final = 10**9


@lru_cache(maxsize=65536)
def _parse_text(text: str) -> Fraction:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise InvalidQuantity(
            f"quantity {text!r} is not a number with an optional suffix; write it like '500m' or '1.5Gi'"
        )
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > _MAX_EXPONENT:
            raise InvalidQuantity(
                f"quantity {text!r} has an exponent beyond ±{_MAX_EXPONENT}; use a smaller one"
            )
        scale = Fraction(10) ** exponent
    else:
        suffix = match["suffix"]
        if suffix not in _SCALE:
            known = ", ".join(s for s in _SCALE if s)
            raise InvalidQuantity(f"quantity {text!r} has the unknown suffix {suffix!r}; use one of {known}")
        scale = _SCALE[suffix]
    amount = number * scale
    if match["sign"] == "-" and amount != 0:
        raise InvalidQuantity(f"quantity {text!r} is negative; a resource amount must be zero or more")
    nanos = -((-amount.numerator * _NANO) // amount.denominator)
    if nanos > MAX_INT64 * _NANO:
        raise InvalidQuantity(f"quantity {text!r} is larger than 2^63-1; check its suffix")
    return Fraction(nanos, _NANO)


def parse_quantity(quantity: str | float) -> Fraction:
    """Return the exact, non-negative amount of a Kubernetes quantity.

    Numbers are accepted because YAML writes `cpu: 2` without quotes. The result is a multiple of 10⁻⁹,
    rounded up.

    Raises:
        InvalidQuantity: not a quantity, negative, NaN or infinite, or larger than 2⁶³−1.
    """
    if isinstance(
        quantity, bool
    ):  # YAML's `yes` and `on` arrive as booleans, which Python takes for integers
        raise InvalidQuantity(f"quantity {quantity!r} is a boolean; write a number or a string")
    if not isinstance(quantity, str | int | float):  # pyright: ignore[reportUnnecessaryIsInstance]  (comes from YAML)
        raise InvalidQuantity(
            f"quantity {quantity!r} is a {type(quantity).__name__}; write a number or a string"
        )
    return _parse_text(quantity if isinstance(quantity, str) else repr(quantity))


def value(quantity: str | float) -> int:
    """Return the amount in whole units, rounded up (bytes, devices, pods)."""
    amount = parse_quantity(quantity)
    return -(-amount.numerator // amount.denominator)


def milli_value(quantity: str | float) -> int:
    """Return the amount in thousandths, rounded up (CPU is counted in milli-cores).

    Raises:
        InvalidQuantity: as `parse_quantity`, and when the thousandths exceed 2⁶³−1.
    """
    amount = parse_quantity(quantity) * 1000
    milli = -(-amount.numerator // amount.denominator)
    if milli > MAX_INT64:
        raise InvalidQuantity(f"quantity {quantity!r} is larger than 2^63-1 thousandths; check its suffix")
    return milli


def format_cpu(milli: int) -> str:
    """Return milli-cores as the shortest Kubernetes quantity, for example 1500 → '1500m', 2000 → '2'."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_bytes(count_bytes: int) -> str:
    """Return bytes as the shortest exact binary quantity, for example 1073741824 → '1Gi'."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = _SCALE[suffix].numerator
        if count_bytes >= unit and count_bytes % unit == 0:
            return f"{count_bytes // unit}{suffix}"
    return str(count_bytes)
