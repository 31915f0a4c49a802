"""Columns of a node: what it can do, what is free, what runs there, what is measured and left open."""

from __future__ import annotations

from typing import Final

from stowplan.core.encoder.column_kinds import AMOUNTS, COUNT, MOST_BYTES, log, share
from stowplan.core.encoder.schema import Column, FeatureGroup, Table
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.semantics import quantity

__all__ = ["LOADS", "NODE", "READINGS", "RESIDUALS"]

LOADS: Final = tuple(f"load_{resource.name.lower()}" for resource in Resource)
"""Columns of a node that say how much of each resource its pods are expected to take, in order."""

READINGS: Final = {
    "memory_bandwidth_utilisation": FeatureGroup.MBPI,
    "memory_bandwidth_pressure": FeatureGroup.MBPI,
    "storage_await_s": FeatureGroup.STORAGE,
    "storage_queue_depth": FeatureGroup.STORAGE,
    "storage_utilisation": FeatureGroup.STORAGE,
    "storage_bytes_per_s": FeatureGroup.STORAGE,
    "storage_level": FeatureGroup.STORAGE,
    "memory_working_set_share": FeatureGroup.MEMORY,
    "memory_cache_share": FeatureGroup.MEMORY,
    "cpu_utilisation": FeatureGroup.USAGE,
    "cpu_wait_share": FeatureGroup.USAGE,
    "nic_utilisation": FeatureGroup.USAGE,
    "rtt_tail_s": FeatureGroup.RTT,
    "pcie_link_share": FeatureGroup.PCIE,
}
"""Quantities on the board of readings that are columns of a node, with the group of each."""


def _reading(name: str, group: FeatureGroup) -> Column:
    about = quantity(name)
    return Column(
        name=name,
        unit=about.unit,
        meaning=about.meaning,
        source="readings",
        low=about.score_low,
        high=about.score_high,
        is_log=about.is_log,
        groups=(group,),
        can_miss=True,
    )


RESIDUALS: Final = {
    "unexplained_cpu": ("cpu_utilisation", FeatureGroup.USAGE),
    "unexplained_dram": ("memory_bandwidth_utilisation", FeatureGroup.MBPI),
    "unexplained_disk": ("storage_bytes_per_s", FeatureGroup.STORAGE),
    "unexplained_nic": ("nic_utilisation", FeatureGroup.USAGE),
}
"""Columns of a node that hold a reading less what its known pods explain: the reading and its group."""

NODE: Final = Table(
    "node",
    (
        *(
            log(
                f"capacity_{name}",
                unit,
                f"{meaning} that the node can do at most",
                "node",
                bounds,
                can_miss=True,
            )
            for unit, name, bounds, meaning in AMOUNTS.values()
        ),
        log("allocatable_memory_bytes", "B", "memory for pods", "node", (2.0**28, MOST_BYTES)),
        log(
            "memory_per_core_bytes",
            "B",
            "memory for pods per core",
            "node",
            (2.0**26, 2.0**40),
            can_miss=True,
        ),
        log("gpus", "1", "GPUs of the node", "node", (0.5, 64.0)),
        share(
            "free_cpu_share",
            "share of the allocatable cores that no pod requests",
            "cluster state",
            can_miss=True,
        ),
        share(
            "free_memory_share",
            "share of the allocatable memory that no pod requests",
            "cluster state",
            can_miss=True,
        ),
        share(
            "free_pods_share",
            "share of the pods that the node takes which it could still take",
            "cluster state",
            can_miss=True,
        ),
        share("free_gpu_share", "share of the GPUs that is free", "cluster state", can_miss=True),
        log(
            "free_gpus_together",
            "1",
            "most GPUs that are free under one PCIe root complex",
            "cluster state, node",
            (0.5, 64.0),
            can_miss=True,
        ),
        log(
            "free_cpu_cores",
            "cores",
            "allocatable cores that no pod requests",
            "cluster state",
            (0.05, 1024.0),
        ),
        log(
            "free_memory_bytes",
            "B",
            "allocatable memory that no pod requests",
            "cluster state",
            (2.0**24, MOST_BYTES),
        ),
        log("pods", "1", "pods on the node", "cluster state", COUNT),
        share(
            "known_pods_share",
            "share of them that are tasks of which the work is known",
            "cluster state, running tasks",
            can_miss=True,
        ),
        share(
            "other_cpu_share",
            "share of the allocatable cores that the other pods request, DaemonSets' among them",
            "cluster state, running tasks",
            can_miss=True,
        ),
        *(
            share(
                name,
                f"{AMOUNTS[resource][3]} that the node's pods should take, as a share of what it can do",
                "work profiles of running tasks; requests of other pods",
                FeatureGroup.HISTORY,
                high=4.0,
                can_miss=True,
            )
            for resource, name in zip(Resource, LOADS, strict=True)
        ),
        share(
            "exposed_tasks",
            "exposed latency shares of the node's tasks, summed: who is hurt by load on memory",
            "work profiles of running tasks",
            FeatureGroup.HISTORY,
            high=16.0,
        ),
        share(
            "exposed_cpu_share",
            "the same, each by the cores that the task takes, as a share of the cores",
            "work profiles of running tasks",
            FeatureGroup.HISTORY,
            high=4.0,
            can_miss=True,
        ),
        *(_reading(name, group) for name, group in READINGS.items()),
        *(
            share(
                name,
                f"{reading} (as a share of what the node can do) less what its pods explain",
                "readings, loads",
                group,
                FeatureGroup.HISTORY,
                low=-1.0,
                can_miss=True,
            )
            for name, (reading, group) in RESIDUALS.items()
        ),
    ),
)
