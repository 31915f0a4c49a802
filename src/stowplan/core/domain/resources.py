"""Amounts of named resources, in the integers the scheduler counts with.

CPU is counted in milli-cores, everything else in whole units (bytes of memory, ephemeral storage and huge
pages; devices of an extended resource), as kube-scheduler does (`framework.Resource`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from stowplan.core.domain.quantity import MAX_INT64, format_bytes, format_cpu, milli_value, value
from stowplan.errors import InvalidQuantity

__all__ = ["CPU", "EPHEMERAL_STORAGE", "MEMORY", "PODS", "Resources", "describe_amount"]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_BYTE_RESOURCES: Final = (MEMORY, EPHEMERAL_STORAGE)


class Resources(Mapping[str, int]):
    """An immutable, hashable map from resource name to amount; absent means zero.

    Units: milli-cores for `cpu`, bytes for `memory`, `ephemeral-storage` and `hugepages-*`, counts for the
    rest.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        """Keep `amounts`, zeros too: asking for zero of a resource differs from not naming it.

        Raises:
            InvalidQuantity: an amount is negative or does not fit in 63 bits.
        """
        checked = dict(sorted(amounts.items())) if amounts else {}
        for name, amount in checked.items():
            if not 0 <= amount <= MAX_INT64:
                raise InvalidQuantity(f"{name} is {amount}; an amount must lie between 0 and 2^63-1")
        self._amounts = checked
        self._hash = hash(tuple(checked.items()))

    @classmethod
    def from_quantities(cls, quantities: Mapping[str, str | int | float]) -> Resources:
        """Parse a Kubernetes resource list such as `{"cpu": "500m", "memory": "1Gi"}`.

        Raises:
            InvalidQuantity: a quantity is not usable; the message names its resource.
        """
        amounts: dict[str, int] = {}
        for name, quantity in quantities.items():
            try:
                amounts[name] = milli_value(quantity) if name == CPU else value(quantity)
            except InvalidQuantity as error:
                raise InvalidQuantity(f"resource {name!r}: {error}") from error
        return cls(amounts)

    def __getitem__(self, name: str) -> int:
        """Return the amount of `name`; KeyError when it is not named (use `get(name, 0)` to count)."""
        return self._amounts[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether `name` is named, without the exception that `Mapping` would raise and catch."""
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, sorted."""
        return iter(self._amounts)

    def __len__(self) -> int:
        """Return the number of named resources."""
        return len(self._amounts)

    def __hash__(self) -> int:
        """Return a hash by content."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild by content: string hashes differ between processes."""
        return (Resources, (self._amounts,))

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __repr__(self) -> str:
        """Show the amounts in Kubernetes notation."""
        inside = ", ".join(
            f"{name}={describe_amount(name, amount)}" for name, amount in self._amounts.items()
        )
        return f"Resources({inside})"

    def plus(self, other: Mapping[str, int]) -> Resources:
        """Return the sum, over the union of names."""
        total = dict(self._amounts)
        for name, amount in other.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def maximum(self, other: Mapping[str, int]) -> Resources:
        """Return the larger amount of each, over the union of names."""
        total = dict(self._amounts)
        for name, amount in other.items():
            total[name] = max(total.get(name, 0), amount)
        return Resources(total)

    def replaced(self, other: Mapping[str, int]) -> Resources:
        """Return a copy in which the names of `other` have its amounts."""
        return Resources({**self._amounts, **other})


def describe_amount(name: str, amount: int) -> str:
    """Return an amount of resource `name` as a Kubernetes quantity a person can read."""
    if name == CPU:
        return format_cpu(amount)
    if name in _BYTE_RESOURCES or name.startswith("hugepages-"):
        return format_bytes(amount)
    return str(amount)
