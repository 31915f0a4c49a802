"""PCIe links: whether a device has the bandwidth that it and its slot could agree on.

A link is healthy when it runs at the width and the speed that both ends can do. Fewer lanes than that are a
fault. A lower speed is one only while the device works: idle devices slow their links to save power.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from stowplan.core.semantics.readings import PcieDevice
from stowplan.core.semantics.value import Unknown, Value, measured

__all__ = ["LinkHealth", "LinkState", "link_state"]

# Share of the transfers that carry data: 8b/10b up to generation 2, 128b/130b up to 5, none in 6 (PCI Express
# Base Specification). What flits and packets cost on top is not in it.
_ENCODING: Final = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 1.0}
_MOST_LANES: Final = 32


class LinkHealth(StrEnum):
    """What is to be said of a link."""

    FULL = "full"
    """As wide and as fast as both ends can."""
    NARROW = "narrow"
    """Fewer lanes than both ends have: a fault, of a slot, a riser or a device."""
    SLOW = "slow"
    """Slower than both ends can although the device works: trained down after errors."""
    NARROW_AND_SLOW = "narrow-and-slow"
    """Both."""
    RESTING = "resting"
    """Slower than both ends can while the device is idle, or may be: saves power, no fault."""
    DOWN = "down"
    """No lane is up."""
    UNKNOWN = "unknown"
    """Width or speed, now or at most, was not read or cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The link of one device."""

    health: LinkHealth
    share: Value
    """Of the bandwidth that both ends can do; of a resting link, what it will have when it works."""
    bytes_per_s: Value
    """At the present speed and width, one direction."""


@dataclass(frozen=True, slots=True)
class _Link:
    """Lanes and GT/s per lane."""

    width: float
    speed_gt_s: float

    def __str__(self) -> str:
        return f"{self.speed_gt_s:g} GT/s × {self.width:g}"

    @property
    def bytes_per_s(self) -> float:
        return self.speed_gt_s * 1e9 * _ENCODING[self.speed_gt_s] * self.width / 8.0


def _now(device: PcieDevice) -> _Link | Unknown:
    """Return the link as it is, or why that is not known."""
    if device.width is None:
        return Unknown(device.why_missing("width"))
    if device.speed_gt_s is None:
        return Unknown(device.why_missing("speed_gt_s"))
    link = _Link(device.width, device.speed_gt_s)
    if device.speed_gt_s not in _ENCODING or not 1.0 <= device.width <= _MOST_LANES:
        return Unknown(f"the link is at {link}", f"GT/s one of {[*_ENCODING]}, 1 … {_MOST_LANES} lanes")
    return link


def _least(device: float, slot: float | None) -> float:
    """Return what both ends can do; the device's own word when the slot's is not known."""
    return device if slot is None else min(device, slot)


def _share(device: PcieDevice, now: _Link) -> tuple[LinkHealth, float | Unknown]:
    """Return what is to be said of a link that is up, and the share of its bandwidth that it has."""
    if device.most_width is None:
        return LinkHealth.UNKNOWN, Unknown(device.why_missing("most_width"))
    if device.most_speed_gt_s is None:
        return LinkHealth.UNKNOWN, Unknown(device.why_missing("most_speed_gt_s"))
    most = _Link(
        _least(device.most_width, device.slot_most_width),
        _least(device.most_speed_gt_s, device.slot_most_speed_gt_s),
    )
    if not (now.width <= most.width and now.speed_gt_s <= most.speed_gt_s):
        return LinkHealth.UNKNOWN, Unknown(f"the link is at {now}, both ends can do {most}", f"≤ {most}")
    is_narrow, is_below = now.width < most.width, now.speed_gt_s < most.speed_gt_s
    if not (is_below and device.is_busy is True):
        resting = LinkHealth.RESTING if is_below else LinkHealth.FULL
        return LinkHealth.NARROW if is_narrow else resting, now.width / most.width
    slow = LinkHealth.NARROW_AND_SLOW if is_narrow else LinkHealth.SLOW
    return slow, now.width / most.width * now.speed_gt_s / most.speed_gt_s


def link_state(device: PcieDevice) -> LinkState:
    """Return health, bandwidth share and bandwidth of a device's link."""
    rate: float | Unknown
    share: float | Unknown
    now = _now(device)
    if device.width == 0.0:
        health, share, rate = LinkHealth.DOWN, 0.0, 0.0
    elif isinstance(now, Unknown):
        health, share, rate = LinkHealth.UNKNOWN, now, now
    else:
        rate = now.bytes_per_s
        health, share = _share(device, now)
    source, time_s = device.source, device.taken.time_s
    return LinkState(
        health=health,
        share=measured("pcie_link_share", share, source=source, measured_s=time_s),
        bytes_per_s=measured("pcie_link_bytes_per_s", rate, source=source, measured_s=time_s),
    )
