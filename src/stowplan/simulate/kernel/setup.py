"""From the tables that come in to the arrays of an empty cluster."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.fitted import GPU_SHARING_KNOTS, GPU_SHARING_SPEEDS
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Cause, Resource
from stowplan.errors import InvalidInput
from stowplan.simulate.kernel.events import ChangeKind
from stowplan.simulate.kernel.state import (
    CHANGE_DTYPE,
    COUNTER_DTYPE,
    EVENT_DTYPE,
    LINK_DTYPE,
    LOCAL_RESOURCES,
    NET_DTYPE,
    NODE_DTYPE,
    PHASE_DTYPE,
    SLOT_DTYPE,
    TASK_DTYPE,
    State,
    fresh_pairs,
)
from stowplan.simulate.kernel.tables import KernelNodes, KernelSchedule

__all__ = ["SCRATCH_ROWS", "changes_table", "fresh_state"]

SCRATCH_ROWS: Final = 12
"""Arrays that a solve needs at once."""


def changes_table(schedule: KernelSchedule | None, nodes: KernelNodes) -> NDArray[np.void]:
    """Sort the schedule by (time, entry) and check what it names.

    Raises:
        InvalidInput: an entry names a node, link or resource that does not exist.
    """
    if schedule is None:
        return np.zeros(0, CHANGE_DTYPE)
    order = np.argsort(schedule.time_s, kind="stable")
    changes = np.zeros(order.size, CHANGE_DTYPE)
    for name in ("time_s", "factor", "kind", "index", "column"):
        changes[name] = getattr(schedule, name)[order]
    changes["entry"] = order
    links = nodes.link_bytes_per_s.shape[0] + len(nodes) * (2 + nodes.root_complexes)
    of_link = changes["kind"] == ChangeKind.LINK_CAPACITY
    bad = (changes["index"] < 0) | (changes["index"] >= np.where(of_link, links, len(nodes)))
    bad |= ~np.isin(changes["kind"], list(ChangeKind))
    bad |= (changes["kind"] == ChangeKind.NODE_CAPACITY) & ~np.isin(changes["column"], list(Resource))
    if bad.any():
        entry = int(changes["entry"][bad][0])
        raise InvalidInput(
            f"entry {entry} of the schedule names a node, link, resource or kind that does not exist"
        )
    return changes


def fresh_state(nodes: KernelNodes, laws: PhysicsLaws, changes: NDArray[np.void], *, start_s: float) -> State:
    """Make the arrays of an empty cluster."""
    count, roots, fabric = len(nodes), nodes.root_complexes, nodes.link_bytes_per_s.shape[0]
    node_table = np.zeros(count, NODE_DTYPE)
    node_table["memory"] = nodes.memory_bytes
    node_table["disk_base"] = nodes.disk_base_bytes_per_s
    node_table["bucket_size"] = nodes.disk_bucket_bytes
    node_table["bucket_level"] = nodes.disk_bucket_bytes
    node_table["bucket_s"] = start_s
    node_table["up"] = 1
    node_table["factor"] = 1.0
    local = (nodes.cpu_cores, nodes.dram_bytes_per_s, nodes.disk_bytes_per_s, nodes.disk_operations_per_s)
    node_table["nominal"] = np.stack(local, axis=1)
    own = np.concatenate(
        [nodes.nic_up_bytes_per_s[:, None], nodes.nic_down_bytes_per_s[:, None], nodes.pcie_bytes_per_s],
        axis=1,
    )
    links = np.zeros(fabric + own.size, LINK_DTYPE)
    links["nominal"] = np.concatenate([nodes.link_bytes_per_s, own.ravel()])
    links["capacity"] = links["nominal"]
    links["factor"] = 1.0
    links["level"] = np.inf
    links["cap_min"] = np.inf
    links["updated_s"] = start_s
    links["cause"] = Cause.NETWORK
    links["cause"][fabric:].reshape(count, 2 + roots)[:, 2:] = Cause.PCIE
    for name in ("head", "heap", "pairs"):
        links[name] = -1
    ways = (nodes.rack_up_link, nodes.rack_down_link, nodes.zone_up_link, nodes.zone_down_link)
    own_links = np.full((count, len(ways)), -1, np.int64)
    for column, way in enumerate(ways):
        if way.size:
            own_links[:, column] = way
    counters = np.zeros(1, COUNTER_DTYPE)
    counters["now_s"] = start_s
    counters["fabric"] = fabric
    counters["roots"] = roots
    counters["net_free"] = -1
    counters["pair_free"] = -1
    width = 2 * SCRATCH_ROWS + 8
    items = count + links.shape[0]
    return State(
        nodes=node_table,
        slots=np.zeros((count, 4), SLOT_DTYPE),
        tasks=np.zeros(64, TASK_DTYPE),
        nets=np.zeros(0, NET_DTYPE),
        links=links,
        pairs=fresh_pairs(0)[0],
        pair_table=fresh_pairs(0)[1],
        own_links=own_links,
        phases=np.zeros(0, PHASE_DTYPE),
        first_phase=np.zeros(1, np.int64),
        changes=changes,
        heap_time=np.full(items, np.inf),
        heap_item=np.zeros(items, np.int64),
        heap_place=np.full(items, -1, np.int64),
        start_time=np.zeros(64),
        start_task=np.zeros(64, np.int64),
        node_queue=np.zeros(count + 1, np.int64),
        link_queue=np.zeros(links.shape[0] + 1, np.int64),
        events=np.zeros(256, EVENT_DTYPE),
        scratch=np.zeros((SCRATCH_ROWS, width)),
        scratch_whole=np.zeros((2, width), np.int64),
        matrix=np.zeros(2 * LOCAL_RESOURCES * width),
        laws=np.array(
            [
                laws.dram_latency_coefficient,
                laws.dram_saturation,
                float(laws.solver_sweeps),
                laws.solver_tolerance,
                laws.cfs_period_s,
                laws.load_tolerance,
            ]
        ),
        gpu_curve=np.stack([GPU_SHARING_KNOTS, GPU_SHARING_SPEEDS]),
        counters=counters,
    )
