"""What a kind of task needs, phase by phase, alone on the reference machine.

Profiles name links of "my own node" by negative codes (`OWN_NIC_UP`, `RACK_UP` …), so one profile serves
every node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.vocabulary import LinkClass
from stowplan.errors import InvalidInput

__all__ = [
    "FLOW_SLOTS",
    "OWN_NIC_DOWN",
    "OWN_NIC_UP",
    "PHASE_DTYPE",
    "RACK_DOWN",
    "RACK_UP",
    "ROOT_COMPLEXES",
    "ZONE_DOWN",
    "ZONE_UP",
    "Flow",
    "KernelProfiles",
    "TaskPhase",
    "flow_path",
    "own_root_complex",
    "require_numbers",
]

FLOW_SLOTS: Final = 8
"""Most links that one phase may use."""
ROOT_COMPLEXES: Final = 8
"""Most PCIe root complexes of a node."""

OWN_NIC_UP: Final = -1
OWN_NIC_DOWN: Final = -2
RACK_UP: Final = -3
RACK_DOWN: Final = -4
ZONE_UP: Final = -5
ZONE_DOWN: Final = -6
_FIRST_ROOT_COMPLEX: Final = -7

PHASE_DTYPE: Final = np.dtype(
    [
        ("work_s", "f8"),
        ("cpu_cores", "f8"),
        ("cpu_burst_cores", "f8"),
        ("cpu_burst_s", "f8"),
        ("dram_bytes_per_s", "f8"),
        ("dram_exposed", "f8"),
        ("disk_read_bytes_per_s", "f8"),
        ("disk_write_bytes_per_s", "f8"),
        ("disk_operation_bytes", "f8"),
        ("disk_queue_depth", "f8"),
        ("cache_bytes", "f8"),
        ("cache_hit", "f8"),
        ("anon_bytes", "f8"),
        ("gpu_utilisation", "f8"),
        ("flow_bytes_per_s", "f8", (FLOW_SLOTS,)),
        ("flow_weight", "f8", (FLOW_SLOTS,)),
        ("flow_link", "i8", (FLOW_SLOTS,)),
        ("flow_count", "i8"),
    ],
    align=True,
)
"""One phase of a profile; the meaning of each field is told at `TaskPhase`."""


def own_root_complex(index: int) -> int:
    """Give the code of the `index`-th PCIe root complex of the task's own node.

    Raises:
        InvalidInput: there is no such root complex.
    """
    if not 0 <= index < ROOT_COMPLEXES:
        raise InvalidInput(
            f"root complex {index} does not exist; a node has at most {ROOT_COMPLEXES}, counted from 0"
        )
    return _FIRST_ROOT_COMPLEX - index


def flow_path(distance: LinkClass, *, root_complex: int = 0, other_root_complex: int = 1) -> tuple[int, ...]:
    """List the links of the task's own node that traffic to and from a peer at `distance` crosses.

    The peer's own links are the peer's to pay (a ring sends as much as it receives), so they are not in the
    list.
    """
    own, other = own_root_complex(root_complex), own_root_complex(other_root_complex)
    match distance:
        case LinkClass.SAME_ROOT_COMPLEX:
            return (own,)
        case LinkClass.SAME_NODE:
            return (own, other)
        case LinkClass.SAME_RACK:
            return (own, OWN_NIC_UP, OWN_NIC_DOWN)
        case LinkClass.SAME_ZONE:
            return (own, OWN_NIC_UP, OWN_NIC_DOWN, RACK_UP, RACK_DOWN)
        case LinkClass.OTHER_ZONE:
            return (own, OWN_NIC_UP, OWN_NIC_DOWN, RACK_UP, RACK_DOWN, ZONE_UP, ZONE_DOWN)


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of a phase over one link, per second of work."""

    link: int
    """Link id, or a code such as `OWN_NIC_UP`; a code whose link the node lacks is left out (infinitely
    fast)."""
    bytes_per_s: float
    weight: float = 1.0
    """Share of the link relative to others, for example the number of connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPhase:
    """One phase of a task: `work_s` seconds alone on the reference machine, and what a second of it needs."""

    work_s: float
    """Seconds of work; 0 is allowed and passes at once."""
    cpu_cores: float = 1.0
    """Cores kept busy at full speed (mean)."""
    cpu_burst_cores: float = 0.0
    """Cores asked for during a burst, when above `cpu_cores`; matters under a CPU limit."""
    cpu_burst_s: float = 1.0
    """Length of such a burst at full speed, seconds."""
    dram_bytes_per_s: float = 0.0
    dram_exposed: float = 0.0
    """m: share of the time alone that waits on memory latency, 0 … 1."""
    disk_read_bytes_per_s: float = 0.0
    disk_write_bytes_per_s: float = 0.0
    disk_operation_bytes: float = 131072.0
    """Mean size of one disk operation; with the rates it gives operations per second."""
    disk_queue_depth: float = 1.0
    """Operations kept outstanding; with their size it is the weight by which the disk is shared."""
    cache_bytes: float = 0.0
    """Page cache the phase would fill."""
    cache_hit: float = 0.0
    """Share of reads that the whole of that cache saves, 0 … 1."""
    anon_bytes: float = 0.0
    """Anonymous memory at the end of the phase; it grows evenly from the end of the phase before."""
    gpu_utilisation: float = 0.0
    """Utilisation of each GPU the task holds, 0 … 1."""
    flows: tuple[Flow, ...] = ()
    """Traffic over links; the slowest decides."""


_FRACTIONS: Final = ("dram_exposed", "cache_hit", "gpu_utilisation")
_SCALARS: Final = tuple(name for name in PHASE_DTYPE.names or () if not name.startswith("flow"))


@dataclass(frozen=True, slots=True)
class KernelProfiles:
    """Profiles as one table of phases. Profile p has phases `first_phase[p]:first_phase[p+1]`."""

    phases: NDArray[np.void]
    """(m,) of `PHASE_DTYPE`."""
    first_phase: NDArray[np.int64]
    """(profiles + 1,) ascending; starts at 0, ends at m."""

    def __post_init__(self) -> None:
        """Check the table.

        Raises:
            InvalidInput: a number is negative, not finite or a share above 1, or the offsets do not fit.
        """
        first = self.first_phase
        if first.ndim != 1 or first.size < 1 or first[0] != 0 or first[-1] != self.phases.shape[0]:
            raise InvalidInput(
                "first_phase must run from 0 to the number of phases; build it with from_phases"
            )
        if (np.diff(first) < 1).any():
            raise InvalidInput(
                f"profile {int(np.argmax(np.diff(first) < 1))} has no phase; each needs one or more"
            )
        for name in _SCALARS:
            require_numbers(
                self.phases[name], f"phase field {name}", highest=1.0 if name in _FRACTIONS else math.inf
            )
        for name in ("disk_operation_bytes", "disk_queue_depth"):
            if (self.phases[name] <= 0.0).any():
                raise InvalidInput(f"phase field {name} must be above 0")
        require_numbers(self.phases["flow_bytes_per_s"], "phase field flow_bytes_per_s")
        used = np.arange(FLOW_SLOTS) < self.phases["flow_count"][:, None]
        if (self.phases["flow_weight"][used] <= 0.0).any():
            raise InvalidInput("phase field flow_weight must be above 0 for every flow")

    def __len__(self) -> int:
        """Count the profiles."""
        return self.first_phase.shape[0] - 1

    @classmethod
    def from_phases(cls, profiles: Sequence[Sequence[TaskPhase]]) -> KernelProfiles:
        """Build the table from one list of phases per profile.

        Raises:
            InvalidInput: a profile has no phase, a phase more than `FLOW_SLOTS` flows, or a number is
            unusable.
        """
        lengths = [len(phases) for phases in profiles]
        table = np.zeros(sum(lengths), PHASE_DTYPE)
        flat = [phase for phases in profiles for phase in phases]
        for name in _SCALARS:
            table[name] = [getattr(phase, name) for phase in flat]
        for index, phase in enumerate(flat):
            if len(phase.flows) > FLOW_SLOTS:
                raise InvalidInput(
                    f"a phase has {len(phase.flows)} flows; at most {FLOW_SLOTS} links can be named"
                )
            table["flow_count"][index] = len(phase.flows)
            for slot, flow in enumerate(phase.flows):
                table["flow_link"][index, slot] = flow.link
                table["flow_bytes_per_s"][index, slot] = flow.bytes_per_s
                table["flow_weight"][index, slot] = flow.weight
        return cls(table, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def require_numbers(
    array: NDArray[np.float64], name: str, *, highest: float = math.inf, finite: bool = True
) -> None:
    """Refuse negative, NaN, too large and (if asked) infinite numbers.

    Raises:
        InvalidInput: naming `name` and the first bad value.
    """
    bad = ~(array >= 0.0) | (array > highest)
    if finite:
        bad |= np.isinf(array)
    if bad.any():
        bound = f" and at most {highest:g}" if highest < math.inf else ""
        raise InvalidInput(f"{name} is {float(array[bad][0])}; it must be a number of 0 or more{bound}")
