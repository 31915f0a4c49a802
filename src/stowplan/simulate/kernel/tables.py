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

from stowplan.errors import InvalidInput
from stowplan.simulate.kernel.events import ChangeKind
from stowplan.simulate.kernel.profiles import ROOT_COMPLEXES, require_numbers

__all__ = ["ROOT_COMPLEXES", "KernelNodes", "KernelSchedule", "TaskStarts"]


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
            require_numbers(array, f"KernelNodes.{name}", finite=False)
        if (self.disk_base_bytes_per_s > self.disk_bytes_per_s).any():
            raise InvalidInput(
                "KernelNodes.disk_base_bytes_per_s is above disk_bytes_per_s; the base is the lower rate"
            )
        if self.pcie_bytes_per_s.shape[1] > ROOT_COMPLEXES:
            raise InvalidInput(
                f"{self.pcie_bytes_per_s.shape[1]} root complexes; a node has at most {ROOT_COMPLEXES}"
            )
        require_numbers(self.link_bytes_per_s, "KernelNodes.link_bytes_per_s", finite=False)
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
            require_numbers(arrays[name], f"TaskStarts.{name}", finite=False)
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
        require_numbers(time_s, "KernelSchedule.time_s")
        require_numbers(factor, "KernelSchedule.factor")
        kind, index, column = (np.asarray(columns[k], np.int64) for k in (1, 2, 3))
        return cls(time_s, kind, index, column, factor)
