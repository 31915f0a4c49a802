"""Kinds of columns: shares, and amounts of which the logarithm counts; bounds that many have in common."""

from __future__ import annotations

from typing import Final

from stowplan.core.encoder.schema import Column, FeatureGroup
from stowplan.core.physics.vocabulary import Resource

__all__ = ["AMOUNTS", "BYTES", "COUNT", "MOST_BYTES", "SECONDS", "log", "share"]

MOST_BYTES: Final = 2.0**44
COUNT: Final = (0.5, 1e5)
SECONDS: Final = (0.1, 1e7)
BYTES: Final = (2.0**10, MOST_BYTES)
AMOUNTS: Final = {
    Resource.CPU: ("cores", "cpu_cores", (0.01, 1024.0), "cores"),
    Resource.DRAM: ("B/s", "dram_bytes_per_s", (1e6, 1e12), "bytes over the memory controllers"),
    Resource.DISK: ("B/s", "disk_bytes_per_s", (1e3, 1e11), "bytes read from and written to disk"),
    Resource.DISK_OPS: ("1/s", "disk_operations_per_s", (0.1, 1e7), "disk requests"),
    Resource.NIC_UP: ("B/s", "nic_up_bytes_per_s", (1e3, 1e12), "bytes sent"),
    Resource.NIC_DOWN: ("B/s", "nic_down_bytes_per_s", (1e3, 1e12), "bytes received"),
    Resource.PCIE: ("B/s", "pcie_bytes_per_s", (1e3, 1e12), "bytes through a PCIe root complex"),
}
"""Unit, name, bounds and meaning of an amount of each resource."""


def share(
    name: str,
    meaning: str,
    source: str,
    *groups: FeatureGroup,
    low: float = 0.0,
    high: float = 1.0,
    can_miss: bool = False,
) -> Column:
    """Return a column without a unit, on its own scale."""
    return Column(
        name=name,
        unit="1",
        meaning=meaning,
        source=source,
        low=low,
        high=high,
        groups=groups,
        can_miss=can_miss,
    )


def log(
    name: str,
    unit: str,
    meaning: str,
    source: str,
    bounds: tuple[float, float],
    *groups: FeatureGroup,
    can_miss: bool = False,
) -> Column:
    """Return a column of which the logarithm counts, between `bounds`."""
    low, high = bounds
    return Column(
        name=name,
        unit=unit,
        meaning=meaning,
        source=source,
        low=low,
        high=high,
        is_log=True,
        groups=groups,
        can_miss=can_miss,
    )
