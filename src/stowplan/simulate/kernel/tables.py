"""What goes into the kernel: nodes, links, task profiles, starts and changes, as structs of arrays.

Everything is checked here, once, at the border: the compiled loop behind it trusts its arrays. Units are in
the names. A profile says what a kind of task needs, phase by phase, alone on the reference machine; a start
says where one runs and under which requests and limits. Profiles name links of "my own node" by negative
codes (`OWN_NIC_UP`, `RACK_UP` …), so one profile serves every node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stowplan.core.physics.vocabulary import LinkClass
from stowplan.errors import InvalidInput
from stowplan.simulate.kernel.events import ChangeKind

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
    "KernelNodes",
    "KernelProfiles",
    "KernelSchedule",
    "TaskPhase",
    "TaskStarts",
    "flow_path",
    "own_root_complex",
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
            _require(
                self.phases[name], f"phase field {name}", highest=1.0 if name in _FRACTIONS else math.inf
            )
        for name in ("disk_operation_bytes", "disk_queue_depth"):
            if (self.phases[name] <= 0.0).any():
                raise InvalidInput(f"phase field {name} must be above 0")
        _require(self.phases["flow_bytes_per_s"], "phase field flow_bytes_per_s")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNodes:
    """The nodes, row by row, and the links of the fabric between them.

    N nodes, L fabric links, P root complexes per node. Link ids: 0 … L−1 are the fabric's; then come, node by
    node, NIC up, NIC down and the P root complexes (`nic_up_link`, `nic_down_link`, `root_complex_link`).
    """

    cpu_cores: NDArray[np.float64]
    """(N,)"""
    memory_bytes: NDArray[np.float64]
    """(N,) allocatable."""
    dram_bytes_per_s: NDArray[np.float64]
    """(N,) highest achieved; inf = never a bottleneck. The same for all fields below."""
    disk_bytes_per_s: NDArray[np.float64]
    """(N,) while the bucket has credit."""
    disk_base_bytes_per_s: NDArray[np.float64]
    """(N,) when it is empty; equal to `disk_bytes_per_s` for a disk without burst."""
    disk_bucket_bytes: NDArray[np.float64]
    """(N,) size of the bucket, full at the start; 0 with burst > base means: always at base."""
    disk_operations_per_s: NDArray[np.float64]
    """(N,)"""
    nic_up_bytes_per_s: NDArray[np.float64]
    """(N,)"""
    nic_down_bytes_per_s: NDArray[np.float64]
    """(N,)"""
    pcie_bytes_per_s: NDArray[np.float64]
    """(N, P) per root complex; P may be 0."""
    link_bytes_per_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """(L,) fabric links."""
    rack_up_link: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(N,) fabric link id, −1 = none; an empty array = none anywhere. The same for the three below."""
    rack_down_link: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    zone_up_link: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    zone_down_link: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Check shapes, signs and link ids.

        Raises:
            InvalidInput: arrays disagree in length, a capacity is negative or NaN, or a link does not exist.
        """
        count = self.cpu_cores.shape[0]
        for name in _NODE_CAPACITIES:
            array: NDArray[np.float64] = getattr(self, name)
            if array.shape[0] != count or array.ndim != (2 if name == "pcie_bytes_per_s" else 1):
                raise InvalidInput(
                    f"KernelNodes.{name} has shape {array.shape}; expected one row for each of {count} nodes"
                )
            _require(array, f"KernelNodes.{name}", finite=False)
        if (self.disk_base_bytes_per_s > self.disk_bytes_per_s).any():
            raise InvalidInput(
                "KernelNodes.disk_base_bytes_per_s is above disk_bytes_per_s; the base is the lower rate"
            )
        if self.pcie_bytes_per_s.shape[1] > ROOT_COMPLEXES:
            raise InvalidInput(
                f"{self.pcie_bytes_per_s.shape[1]} root complexes; a node has at most {ROOT_COMPLEXES}"
            )
        _require(self.link_bytes_per_s, "KernelNodes.link_bytes_per_s", finite=False)
        for name in _NODE_LINKS:
            links: NDArray[np.int64] = getattr(self, name)
            if links.shape not in {(0,), (count,)}:
                raise InvalidInput(f"KernelNodes.{name} has shape {links.shape}; expected ({count},) or (0,)")
            if ((links < -1) | (links >= self.link_bytes_per_s.shape[0])).any():
                raise InvalidInput(
                    f"KernelNodes.{name} names a link outside 0 … {self.link_bytes_per_s.shape[0] - 1}"
                )

    def __len__(self) -> int:
        """Count the nodes."""
        return self.cpu_cores.shape[0]

    @property
    def root_complexes(self) -> int:
        """P, root complexes per node."""
        return self.pcie_bytes_per_s.shape[1]

    def nic_up_link(self, row: int) -> int:
        """Give the link id of what node `row` sends."""
        return self.link_bytes_per_s.shape[0] + row * (2 + self.root_complexes)

    def nic_down_link(self, row: int) -> int:
        """Give the link id of what node `row` receives."""
        return self.nic_up_link(row) + 1

    def root_complex_link(self, row: int, index: int) -> int:
        """Give the link id of root complex `index` of node `row`."""
        return self.nic_up_link(row) + 2 + index

    @classmethod
    def of(cls, count: int, *, cpu_cores: ArrayLike, **fields: Any) -> KernelNodes:  # noqa: ANN401 (arrays)
        """Build `count` nodes from scalars or arrays.

        What is not named is unlimited; `disk_base_bytes_per_s` follows `disk_bytes_per_s`.
        """
        disk = fields.get("disk_bytes_per_s", math.inf)
        defaults: dict[str, Any] = {
            "memory_bytes": math.inf,
            "dram_bytes_per_s": math.inf,
            "disk_bytes_per_s": disk,
            "disk_base_bytes_per_s": disk,
            "disk_bucket_bytes": 0.0,
            "disk_operations_per_s": math.inf,
            "nic_up_bytes_per_s": math.inf,
            "nic_down_bytes_per_s": math.inf,
        }
        values = {**defaults, "cpu_cores": cpu_cores, **fields}
        pcie = np.asarray(values.pop("pcie_bytes_per_s", np.zeros(0)), np.float64)
        arrays: dict[str, Any] = {name: values.pop(name) for name in _NODE_LINKS if name in values}
        arrays = {
            name: np.broadcast_to(np.asarray(array, np.int64), (count,)).copy()
            for name, array in arrays.items()
        }
        if "link_bytes_per_s" in values:
            arrays["link_bytes_per_s"] = np.atleast_1d(np.asarray(values.pop("link_bytes_per_s"), np.float64))
        for name, value in values.items():
            arrays[name] = np.broadcast_to(np.asarray(value, np.float64), (count,)).copy()
        arrays["pcie_bytes_per_s"] = np.broadcast_to(pcie, (count, pcie.shape[-1])).copy()
        return cls(**arrays)


_NODE_CAPACITIES: Final = (
    "cpu_cores",
    "memory_bytes",
    "dram_bytes_per_s",
    "disk_bytes_per_s",
    "disk_base_bytes_per_s",
    "disk_bucket_bytes",
    "disk_operations_per_s",
    "nic_up_bytes_per_s",
    "nic_down_bytes_per_s",
    "pcie_bytes_per_s",
)
_NODE_LINKS: Final = ("rack_up_link", "rack_down_link", "zone_up_link", "zone_down_link")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarts:
    """A batch of starts, n tasks. Build it with `TaskStarts.of`, which spreads scalars."""

    row: NDArray[np.int64]
    """(n,) node row."""
    profile: NDArray[np.int64]
    """(n,) profile id as `FluidKernel.add_profiles` gave it."""
    start_s: NDArray[np.float64]
    """(n,) simulated time at which the task begins to run; NaN = now. A later time models image pull and
    start-up."""
    speed: NDArray[np.float64]
    """(n,) speed of this task on this machine relative to the reference machine (task × machine, never per
    machine)."""
    cpu_weight: NDArray[np.float64]
    """(n,) `cpu.weight`, which Kubernetes derives from the CPU request."""
    cpu_limit_cores: NDArray[np.float64]
    """(n,) inf = no limit."""
    memory_limit_bytes: NDArray[np.float64]
    """(n,) inf = no limit."""
    memory_request_bytes: NDArray[np.float64]
    """(n,) who is most above it is evicted first."""
    gpu_mask: NDArray[np.int64]
    """(n,) bit g set: the task holds (a share of) GPU g of its node."""

    def __len__(self) -> int:
        """Count the starts."""
        return self.row.shape[0]

    @classmethod
    def of(
        cls,
        row: ArrayLike,
        profile: ArrayLike,
        *,
        start_s: ArrayLike = math.nan,
        speed: ArrayLike = 1.0,
        cpu_weight: ArrayLike = 100.0,
        cpu_limit_cores: ArrayLike = math.inf,
        memory_limit_bytes: ArrayLike = math.inf,
        memory_request_bytes: ArrayLike = 0.0,
        gpu_mask: ArrayLike = 0,
    ) -> TaskStarts:
        """Spread scalars over the batch and check every number.

        Raises:
            InvalidInput: lengths disagree, or a speed, weight, limit or request is unusable.
        """
        floats = {
            "start_s": start_s,
            "speed": speed,
            "cpu_weight": cpu_weight,
            "cpu_limit_cores": cpu_limit_cores,
            "memory_limit_bytes": memory_limit_bytes,
            "memory_request_bytes": memory_request_bytes,
        }
        whole = {"row": row, "profile": profile, "gpu_mask": gpu_mask}
        arrays: dict[str, Any] = {
            name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in floats.items()
        }
        arrays |= {name: np.atleast_1d(np.asarray(value, np.int64)) for name, value in whole.items()}
        count = max(array.shape[0] for array in arrays.values())
        for name, array in arrays.items():
            if array.shape not in {(1,), (count,)}:
                raise InvalidInput(f"TaskStarts.{name} has {array.shape[0]} entries; expected 1 or {count}")
            arrays[name] = np.ascontiguousarray(np.broadcast_to(array, (count,)))
        for name in ("speed", "cpu_weight", "cpu_limit_cores"):
            if not (arrays[name] > 0.0).all():
                raise InvalidInput(f"TaskStarts.{name} must be above 0")
        for name in ("memory_limit_bytes", "memory_request_bytes"):
            _require(arrays[name], f"TaskStarts.{name}", finite=False)
        return cls(**arrays)


@dataclass(frozen=True, slots=True)
class KernelSchedule:
    """Changes from outside at known times: faults, storage drift, link failures; m entries, any order."""

    time_s: NDArray[np.float64]
    """(m,) simulated seconds."""
    kind: NDArray[np.int64]
    """(m,) `ChangeKind`."""
    index: NDArray[np.int64]
    """(m,) node row, or link id for LINK_CAPACITY."""
    column: NDArray[np.int64]
    """(m,) `Resource` for NODE_CAPACITY, else ignored."""
    factor: NDArray[np.float64]
    """(m,) multiplier of the nominal capacity; 1 restores it. Ignored for NODE_DOWN and NODE_UP."""

    @classmethod
    def of(cls, entries: Sequence[tuple[float, ChangeKind, int, int, float]]) -> KernelSchedule:
        """Build a schedule from (time_s, kind, index, column, factor) tuples.

        Raises:
            InvalidInput: a time or factor is negative or not finite.
        """
        columns = list(zip(*entries, strict=True)) if entries else [(), (), (), (), ()]
        time_s, factor = np.asarray(columns[0], np.float64), np.asarray(columns[4], np.float64)
        _require(time_s, "KernelSchedule.time_s")
        _require(factor, "KernelSchedule.factor")
        kind, index, column = (np.asarray(columns[k], np.int64) for k in (1, 2, 3))
        return cls(time_s, kind, index, column, factor)


def _require(
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
