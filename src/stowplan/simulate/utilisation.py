"""Utilisation over time: what was requested and what was really used, of the cluster and of each node.

What was used comes from the kernel's counters, exact means between readings. What was requested is integrated
exactly from
the ledger: the integral of a step function up to t is Σ amount · max(0, t − begin) over all begins, less the
same over all ends, and both are sums over a sorted prefix.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY
from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.frames import Columns, seconds, text, with_run
from stowplan.simulate.record import RunRecord

__all__ = ["RESOURCE_UNITS", "capacities", "node_usage_frame", "usage_frame"]

RESOURCE_UNITS = {
    Resource.CPU: ("cpu", "cores"),
    Resource.DRAM: ("dram", "bytes_per_s"),
    Resource.DISK: ("disk", "bytes_per_s"),
    Resource.DISK_OPS: ("disk_operations", "per_s"),
    Resource.NIC_UP: ("network_up", "bytes_per_s"),
    Resource.NIC_DOWN: ("network_down", "bytes_per_s"),
    Resource.PCIE: ("pcie", "bytes_per_s"),
}
_NODE_RESOURCES = (
    Resource.CPU,
    Resource.DRAM,
    Resource.DISK,
    Resource.NIC_UP,
    Resource.NIC_DOWN,
    Resource.PCIE,
)


def _requested(
    record: RunRecord, amounts: NDArray[np.float64], times_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of what was requested between readings, whole cluster, shape (readings − 1,).

    The integral of a step function up to t is Σ amount · max(0, t − begin) over begins less the same over
    ends; both come from one sorted cumulative sum each, so it is exact.
    """
    ledger = record.ledger
    per_attempt = amounts[np.array(ledger.task, dtype=np.int64)]
    ended_s = np.array(ledger.ended_s)
    begin = _ramp(np.array(ledger.placed_s), per_attempt, times_s)
    end = _ramp(np.where(np.isnan(ended_s), math.inf, ended_s), per_attempt, times_s)
    return np.diff(begin - end) / np.diff(times_s)


def _ramp(
    moments_s: NDArray[np.float64], amounts: NDArray[np.float64], times_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return Σ amount · max(0, t − moment) for each t, shape (times,)."""
    order = np.argsort(moments_s, kind="stable")
    sorted_s = moments_s[order]
    count = np.searchsorted(sorted_s, times_s, side="right")
    finite = np.where(np.isinf(sorted_s), 0.0, sorted_s)
    total = np.concatenate([[0.0], np.cumsum(amounts[order])])
    weighted = np.concatenate([[0.0], np.cumsum(amounts[order] * finite)])
    return total[count] * times_s - weighted[count]


def capacities(record: RunRecord) -> NDArray[np.float64]:
    """Return what each node can do of each resource, float64 (nodes, resources); inf: not known."""
    nodes = record.machines.nodes
    capacity = np.full((len(nodes), len(Resource)), math.inf)
    capacity[:, Resource.CPU] = nodes.cpu_cores
    capacity[:, Resource.DRAM] = nodes.dram_bytes_per_s
    capacity[:, Resource.DISK] = nodes.disk_bytes_per_s
    capacity[:, Resource.DISK_OPS] = nodes.disk_operations_per_s
    capacity[:, Resource.NIC_UP] = nodes.nic_up_bytes_per_s
    capacity[:, Resource.NIC_DOWN] = nodes.nic_down_bytes_per_s
    if nodes.root_complexes:
        capacity[:, Resource.PCIE] = nodes.pcie_bytes_per_s.sum(axis=1)
    return capacity


def usage_frame(record: RunRecord) -> pl.DataFrame:
    """Return the cluster's resources as step functions: mean amounts from `time_s` on, for `length_s`.

    `requested` and `allocatable` are null where pods do not request the resource or its capacity is not
    known.
    """
    readings = record.usage
    times_s = np.array(readings.times_s)
    if len(times_s) < 2:
        return with_run(record, _usage_columns([]))
    length_s = np.diff(times_s)
    used = np.diff(np.concatenate(readings.used), axis=0) / length_s[:, None]
    demands = record.demands
    allocatable = {
        name: float(sum(node.allocatable.get(name, 0) for node in record.cluster.nodes))
        for name in (CPU, MEMORY)
    }
    cpu_requested = _requested(record, demands.cpu_request_cores, times_s)
    memory_requested = _requested(record, demands.memory_request_bytes, times_s)
    anon_bytes = np.concatenate(readings.anon_bytes)
    parts = [
        ("cpu", "cores", times_s, length_s, cpu_requested, used[:, Resource.CPU], allocatable[CPU] / 1000.0),
        ("memory", "bytes", times_s, length_s, memory_requested, (anon_bytes[1:] + anon_bytes[:-1]) / 2.0,
         allocatable[MEMORY]),
    ]  # fmt: skip
    gpus = sum(len(node.hardware.gpus) for node in record.cluster.nodes)
    if gpus:
        parts.append(
            ("gpu", "gpus", times_s, length_s, _requested(record, demands.gpu_request, times_s),
             np.diff(np.array(readings.gpu_s)) / length_s, float(gpus))
        )  # fmt: skip
    nothing = np.full(len(length_s), math.nan)
    capacity = capacities(record).sum(axis=0)
    for resource in Resource:
        if resource != Resource.CPU and used[:, resource].any():
            name, unit = RESOURCE_UNITS[resource]
            parts.append(
                (name, unit, times_s, length_s, nothing, used[:, resource], float(capacity[resource]))
            )
    return with_run(record, _usage_columns(parts))


def _usage_columns(
    parts: list[
        tuple[
            str,
            str,
            NDArray[np.float64],
            NDArray[np.float64],
            NDArray[np.float64],
            NDArray[np.float64],
            float,
        ]
    ],
) -> Columns:
    empty = np.zeros(0)
    return {
        "resource": text([name for name, _, _, length_s, *_ in parts for _ in length_s]),
        "unit": text([unit for _, unit, _, length_s, *_ in parts for _ in length_s]),
        "time_s": np.concatenate([empty, *(part[2][:-1] for part in parts)]),
        "length_s": np.concatenate([empty, *(part[3] for part in parts)]),
        "requested": seconds(np.concatenate([empty, *(part[4] for part in parts)])),
        "used": np.concatenate([empty, *(part[5] for part in parts)]),
        "allocatable": pl.Series(
            np.concatenate([empty, *(np.full(len(part[3]), part[6]) for part in parts)])
        ).replace(math.inf, None),
    }


def node_usage_frame(record: RunRecord) -> pl.DataFrame:
    """Return the share (mean, 0–1) of each resource that was requested and used, per node and interval.

    A share is null where the node's capacity is not known. Memory used is anonymous memory at the end of the
    interval.
    """
    readings = record.node_usage
    times_s = np.array(readings.times_s)
    count = len(record.cluster.nodes)
    steps = max(0, len(times_s) - 1)
    length_s = np.diff(times_s) if steps else np.zeros(0)
    used = np.zeros((steps, count, len(Resource)))
    if steps:
        used = np.diff(np.stack(readings.used), axis=0) / length_s[:, None, None]
    capacity = capacities(record)
    cpu, memory = _requested_by_node(record, times_s)
    allocatable = np.array(
        [
            [node.allocatable.get(CPU, 0) / 1000.0, float(node.allocatable.get(MEMORY, 0))]
            for node in record.cluster.nodes
        ]
    )
    anon_bytes = np.stack(readings.anon_bytes)[1:] if steps else np.zeros((0, count))
    return with_run(
        record,
        {
            "node": text([node.name for node in record.cluster.nodes] * steps),
            "time_s": np.repeat(times_s[:-1], count),
            "length_s": np.repeat(length_s, count),
            "cpu_requested_share": _share(cpu, allocatable[:, 0]),
            "memory_requested_share": _share(memory, allocatable[:, 1]),
            "memory_used_share": _share(anon_bytes, allocatable[:, 1]),
            **{
                f"{RESOURCE_UNITS[resource][0]}_used_share": _share(
                    used[:, :, resource], capacity[:, resource]
                )
                for resource in _NODE_RESOURCES
            },
        },
    )


def _share(amounts: NDArray[np.float64], capacity: NDArray[np.float64]) -> pl.Series:
    known = np.isfinite(capacity) & (capacity > 0.0)
    return seconds(np.where(known, amounts / np.where(known, capacity, 1.0), math.nan).ravel())


def _requested_by_node(
    record: RunRecord, times_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean requested cores and bytes, each (readings − 1, nodes)."""
    ledger, demands = record.ledger, record.demands
    node = np.array(ledger.node, dtype=np.int64)
    order = np.argsort(node, kind="stable")
    bounds = np.searchsorted(node[order], np.arange(len(record.cluster.nodes) + 1))
    tasks = np.array(ledger.task, dtype=np.int64)[order]
    placed_s = np.array(ledger.placed_s)[order]
    ended_s = np.array(ledger.ended_s)[order]
    ended_s = np.where(np.isnan(ended_s), math.inf, ended_s)
    steps = max(0, len(times_s) - 1)
    means = np.zeros((2, steps, len(record.cluster.nodes)))
    if not steps:
        return means[0], means[1]
    length_s = np.diff(times_s)
    for index in range(len(record.cluster.nodes)):
        part = slice(bounds[index], bounds[index + 1])
        if part.start == part.stop:
            continue
        for which, amounts in enumerate((demands.cpu_request_cores, demands.memory_request_bytes)):
            per_attempt = amounts[tasks[part]]
            held = _ramp(placed_s[part], per_attempt, times_s) - _ramp(ended_s[part], per_attempt, times_s)
            means[which, :, index] = np.diff(held) / length_s
    return means[0], means[1]
