"""From the tasks of a workload to the kernel's profiles and start parameters, as one table.

Made once before the run, so that placing a batch of tasks is a few gathers from arrays. Tasks are numbered
through all submissions in order of arrival; that number is the `task id` of the simulator.

What the translation assumes, where the description is silent:
* network traffic goes through the node's own NIC, and through the rack's uplinks where the fabric has them;
* PCIe traffic goes through the root complex of the task's first GPU, the first of the node without GPUs;
* a share of a GPU is used to that share (500 thousandths: utilisation 0.5), a whole one fully;
* page cache is held but saves no reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY, Phase, Task, WorkProfile
from stowplan.core.physics.cpu import cpu_weight_of_request
from stowplan.errors import InvalidInput
from stowplan.simulate.kernel import (
    FLOW_SLOTS,
    OWN_NIC_DOWN,
    OWN_NIC_UP,
    PHASE_DTYPE,
    RACK_DOWN,
    RACK_UP,
    KernelProfiles,
    own_root_complex,
)

__all__ = ["Demands", "add_flows", "gpu_share", "profiles_of"]

_IDLE = Phase(work_s=0.0)


class Demands:
    """Start parameters of T tasks.

    Attributes:
        cpu_weight, cpu_limit_cores, memory_limit_bytes, memory_request_bytes: float64 (T,); as `TaskStarts`.
        cpu_request_cores, gpu_request: float64 (T,); cores, and GPUs (a share counts as such).
        alone_s: float64 (T,); seconds alone on the reference machine.
        cpu_core_s: float64 (T,); core-seconds that the whole work keeps busy on the reference machine.
        peak_bytes: float64 (T,); most anonymous memory that the task uses.
        factor_id: int64 (T,); row of `speeds`.
        speeds: float64 (F, M); speed of tasks of a factor id on each machine type.
        uses_pcie: bool (T,).
    """

    __slots__ = (
        "alone_s",
        "cpu_core_s",
        "cpu_limit_cores",
        "cpu_request_cores",
        "cpu_weight",
        "factor_id",
        "gpu_request",
        "memory_limit_bytes",
        "memory_request_bytes",
        "peak_bytes",
        "speeds",
        "uses_pcie",
    )

    def __init__(self, tasks: Sequence[Task], machine_types: Sequence[str]) -> None:
        """Read off what the kernel needs of `tasks` on machines of `machine_types`."""
        count = len(tasks)
        requests = [task.shape.requests for task in tasks]
        works = [task.work for task in tasks]
        self.cpu_request_cores = np.array([r.get(CPU, 0) / 1000.0 for r in requests]).reshape(count)
        self.memory_request_bytes = np.array([float(r.get(MEMORY, 0)) for r in requests]).reshape(count)
        weight_of = {cores: cpu_weight_of_request(cores) for cores in set(self.cpu_request_cores.tolist())}
        self.cpu_weight = np.array([weight_of[cores] for cores in self.cpu_request_cores.tolist()])
        self.cpu_limit_cores = np.array([_limit(work.cpu_limit_cores) for work in works])
        self.memory_limit_bytes = np.array([_limit(work.memory_limit_bytes) for work in works])
        gpus = [task.shape.gpu for task in tasks]
        self.gpu_request = np.array([gpu.count * gpu.milli / 1000.0 if gpu else 0.0 for gpu in gpus])
        self.alone_s = np.array([work.alone_s for work in works])
        self.cpu_core_s = np.array([math.fsum(p.work_s * p.cpu_cores for p in work.phases) for work in works])
        self.peak_bytes = np.array([work.anon_bytes for work in works])
        self.uses_pcie = np.array([any(p.pcie_bytes_per_s > 0.0 for p in work.phases) for work in works])
        id_of: dict[tuple[tuple[str, float], ...], int] = {}
        self.factor_id = np.array(
            [id_of.setdefault(work.machine_factors, len(id_of)) for work in works], dtype=np.int64
        )
        self.speeds = np.array(
            [[1.0 / dict(factors).get(kind, 1.0) for kind in machine_types] for factors in id_of]
        ).reshape(len(id_of), len(machine_types))


def _limit(amount: float | None) -> float:
    return math.inf if amount is None else amount


def profiles_of(
    works: Sequence[tuple[WorkProfile, float]], *, leaves_rack: bool, root_complex: int = 0
) -> KernelProfiles:
    """Return one profile per (work, GPU utilisation), in order.

    `leaves_rack` sends network traffic over the rack's uplinks too; PCIe traffic uses `root_complex`.
    A work without phases becomes one that takes no time.

    Raises:
        InvalidInput: a number that the kernel cannot take.
    """
    phases = [phase for work, _ in works for phase in (work.phases or (_IDLE,))]
    lengths = np.array([len(work.phases) or 1 for work, _ in works], dtype=np.int64)
    table = np.zeros(len(phases), dtype=PHASE_DTYPE)
    columns: Mapping[str, list[float]] = {
        "work_s": [p.work_s for p in phases],
        "cpu_cores": [p.cpu_cores for p in phases],
        "dram_bytes_per_s": [p.dram_bytes_per_s for p in phases],
        "dram_exposed": [p.latency_share for p in phases],
        "disk_read_bytes_per_s": [p.disk_read_bytes_per_s for p in phases],
        "disk_write_bytes_per_s": [p.disk_write_bytes_per_s for p in phases],
        "disk_operation_bytes": [max(p.disk_request_bytes, 1.0) for p in phases],
        "disk_queue_depth": [max(p.disk_queue_bytes / max(p.disk_request_bytes, 1.0), 1e-9) for p in phases],
    }
    for name, column in columns.items():
        table[name] = column
    table["cpu_burst_s"] = 1.0
    for name, of_task in (
        ("anon_bytes", [work.anon_bytes for work, _ in works]),
        ("cache_bytes", [work.cache_bytes for work, _ in works]),
        ("gpu_utilisation", [utilisation for _, utilisation in works]),
    ):
        table[name] = np.repeat(np.array(of_task, dtype=np.float64), lengths)
    up = np.array([p.nic_up_bytes_per_s for p in phases])
    down = np.array([p.nic_down_bytes_per_s for p in phases])
    pcie = np.array([p.pcie_bytes_per_s for p in phases])
    _add_flow(table, OWN_NIC_UP, up)
    _add_flow(table, OWN_NIC_DOWN, down)
    _add_flow(table, own_root_complex(root_complex), pcie)
    if leaves_rack:
        _add_flow(table, RACK_UP, up)
        _add_flow(table, RACK_DOWN, down)
    return KernelProfiles(table, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def add_flows(profiles: KernelProfiles, flows: Sequence[tuple[int, float]]) -> KernelProfiles:
    """Return the profiles with more traffic over links, (id, bytes per second of work), in every phase.

    Raises:
        InvalidInput: a phase has too many flows then.
    """
    table = profiles.phases.copy()
    if len(flows) + int(table["flow_count"].max(initial=0)) > FLOW_SLOTS:
        raise InvalidInput(f"{len(flows)} more flows are too many: a phase has at most {FLOW_SLOTS}")
    for link, bytes_per_s in flows:
        _add_flow(table, link, np.full(len(table), bytes_per_s))
    return KernelProfiles(table, profiles.first_phase)


def gpu_share(task: Task) -> float:
    """Return the share of each of its GPUs that a task keeps busy alone, 0–1.

    A training job computes for a part of its time; whatever else has GPUs uses what it asked for.
    """
    request, training = task.shape.gpu, task.work.training
    if request is None:
        return 0.0
    share = request.milli / 1000.0
    if training is not None and task.work.alone_s > 0.0:
        share *= min(1.0, training.steps * training.compute_s / task.work.alone_s)
    return share


def _add_flow(table: NDArray[np.void], link: int, bytes_per_s: NDArray[np.float64]) -> None:
    """Give the phases with traffic over `link` one more flow."""
    rows = np.flatnonzero(bytes_per_s > 0.0)
    slots = table["flow_count"][rows]
    table["flow_link"][rows, slots] = link
    table["flow_bytes_per_s"][rows, slots] = bytes_per_s[rows]
    table["flow_weight"][rows, slots] = 1.0
    table["flow_count"][rows] += 1
