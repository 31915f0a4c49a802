"""At which await a platform's storage is how congested: the bounds of levels 1 to 4, as data.

Levels mean the same everywhere (0 normal, 1 busy, 2 congested, 3 badly congested, 4 stalled); at how many
milliseconds one begins differs by platform. So what is learnt from levels moves between clouds. Beside each
bound stands where it comes from. To add a platform, add an entry here with its measurements, or hand
`levels_of` a table of your own.

The real series used are AzurePublicDataset's vm-noise 2024 (fio random reads of a remote disk, 483 days; its
files called `msec` hold microseconds: await × IOPS is the queue depth of 64 only so).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from stowplan.errors import InvalidInput

__all__ = ["DEFAULT_PLATFORM", "LEVEL_COUNT", "LEVEL_NAMES", "PLATFORMS", "StorageLevels", "levels_of"]

LEVEL_NAMES: Final = ("normal", "busy", "congested", "badly congested", "stalled")
LEVEL_COUNT: Final = len(LEVEL_NAMES)
DEFAULT_PLATFORM: Final = "default"
"""Stands in for platforms without an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLevels:
    """The levels of one platform.

    Attributes:
        platform: its id: cloud, and kind of disk where that matters.
        bounds_s: await at which levels 1 to 4 begin, seconds, ascending; a reading on the bound is in the
        level.
        origin: where the bounds come from.
        is_default: whether the default table stands in for a platform that has none.
    """

    platform: str
    bounds_s: tuple[float, float, float, float]
    origin: str
    is_default: bool = False

    def __post_init__(self) -> None:
        """Refuse bounds that are no ladder.

        Raises:
            InvalidInput: there are not four, or they are not ascending, positive and finite.
        """
        steps = (0.0, *self.bounds_s, math.inf)
        if len(self.bounds_s) != LEVEL_COUNT - 1 or not all(low < high for low, high in pairwise(steps)):
            raise InvalidInput(
                f"storage levels of {self.platform!r}: bounds {self.bounds_s} must be {LEVEL_COUNT - 1} "
                "ascending numbers of seconds above 0"
            )

    def level(self, await_s: float, share: float = 1.0) -> int:
        """Return the level of one await, with every bound multiplied by `share`."""
        return sum(await_s >= bound * share for bound in self.bounds_s)


_TABLES: Final = (
    StorageLevels(
        platform="aws",
        # Level 2 at 50 ms: the source article. Levels 1, 3 and 4: proposals, a fifth, four and twenty times
        # it.
        bounds_s=(0.010, 0.050, 0.200, 1.0),
        origin="level 2: the source article; the others: proposals",
    ),
    StorageLevels(
        platform="alibaba",
        # Level 2 at 45 ms: the source article. The others are in AWS's proportions.
        bounds_s=(0.009, 0.045, 0.180, 0.9),
        origin="level 2: the source article; the others: proposals",
    ),
    StorageLevels(
        platform="azure",
        # Level 1: 12.55 ms is the await of a remote disk that gives its rated IOPS to 64 requests of 8 KiB;
        # one request alone takes 0.66 ms, at most 1.2 ms in 483 days. Level 2: twice the 20.6 ms of 64
        # requests of 64 KiB at the rated throughput, which only a degraded disk exceeds (B8ms: 34 ms in the
        # 95th percentile, 77 ms at most). Levels 3 and 4: AWS's proportions.
        bounds_s=(0.012, 0.040, 0.160, 0.8),
        origin="levels 1 and 2: AzurePublicDataset vm-noise 2024; 3 and 4: proposals",
    ),
    StorageLevels(
        platform="local-ssd",
        # Measured on one virtual disk of a local SSD: 0.45 ms alone with 32 requests of 4 KiB in flight, 11.8
        # ms beside a sequential writer (level 2), 239 to 405 ms beside a sequential reader (level 3).
        bounds_s=(0.002, 0.010, 0.100, 0.5),
        origin="levels 2 and 3: own measurement of one disk under a writer, a reader; 1, 4: proposals",
    ),
    StorageLevels(
        platform=DEFAULT_PLATFORM,
        # The bounds of AWS: of the platforms with a published level 2 the one that is slowest to call it
        # congested.
        bounds_s=(0.010, 0.050, 0.200, 1.0),
        origin="the bounds of aws",
        is_default=True,
    ),
)

PLATFORMS: Final[Mapping[str, StorageLevels]] = MappingProxyType({one.platform: one for one in _TABLES})
"""The levels of each platform by its id."""


def levels_of(platform: str, tables: Mapping[str, StorageLevels] = PLATFORMS) -> StorageLevels:
    """Return the levels of `platform`; the default's, under its name and flagged, when it has none.

    Raises:
        InvalidInput: neither the platform nor the default is among the `tables`.
    """
    found = tables.get(platform)
    if found is not None:
        return found
    default = tables.get(DEFAULT_PLATFORM)
    if default is None:
        raise InvalidInput(
            f"storage levels: no table for {platform!r} and none for {DEFAULT_PLATFORM!r}; add one of them"
        )
    return replace(default, platform=platform, is_default=True)
