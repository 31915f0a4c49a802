"""The state of the kernel as flat records: what the compiled loop works on.

One record is one thing (a node, a running task, a link), so that what an event touches lies together in
memory. A running task sits in a slot of its node: `slots[row, i]`, i < `nodes[row].count`. A task with
traffic also has an entry in `nets`, from which the links reach it. `State` bundles all arrays; compiled code
reaches them through `views`. Arrays only ever grow, by doubling, between calls (`grown`).

Units: seconds, bytes, cores; work in seconds alone on the reference machine.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.vocabulary import CAUSE_COUNT
from stowplan.simulate.kernel.profiles import FLOW_SLOTS, PHASE_DTYPE

__all__ = [
    "CHANGE_DTYPE",
    "COUNTER_DTYPE",
    "EVENT_DTYPE",
    "LINK_DTYPE",
    "LOCAL_RESOURCES",
    "NET_DTYPE",
    "NODE_DTYPE",
    "PAIR_DTYPE",
    "PHASE_DTYPE",
    "SLOT_DTYPE",
    "TASK_DTYPE",
    "State",
    "TaskState",
    "copy_of",
    "fresh_pairs",
    "grown",
]

LOCAL_RESOURCES: Final = 4
"""CPU, DRAM, DISK and DISK_OPS are solved inside a node; NICs and root complexes are links of the fabric."""


class TaskState:
    """Where a task is in its life; the values of `TASK_DTYPE.state`."""

    WAITING: Final = 0
    RUNNING: Final = 1
    FINISHED: Final = 2
    KILLED: Final = 3
    STOPPED: Final = 4


def _record(floats: str, whole: str, **nested: tuple[str, int]) -> np.dtype[np.void]:
    fields: list[Any] = [(name, "f8") for name in floats.split()] + [(name, "i8") for name in whole.split()]
    fields += [(name, kind, (length,)) for name, (kind, length) in nested.items()]
    return np.dtype(fields, align=True)


TASK_DTYPE: Final = _record(
    "start_s started_s finished_s speed pace cpu_weight cpu_limit memory_limit memory_request work_s done_s",
    "row slot profile phase state gpu_mask pace_cause",
    lost=("f8", CAUSE_COUNT),
)
"""A task from start to end, by id. `work_s` is over all phases, `done_s` over the finished ones; -1 row =
gone."""

SLOT_DTYPE: Final = _record(
    "updated_s remaining stop_at rate own_time base_time stall gpu exposed cores dram disk disk_read "
    "disk_write operations_per_byte cpu_weight dram_weight disk_weight speed pace quota cap_used work_s "
    "anon_start anon_end cache_bytes cache_hit memory_limit memory_request gpu_utilisation",
    "task net cause gpu_mask gpus local oom pace_cause",
    lost=("f8", CAUSE_COUNT),
)
"""A running task. It was brought up to `updated_s`; `remaining` work then, and at `stop_at` of it something
happens: the end of the phase, or (`oom`) of its memory limit. `own_time` is seconds per work if nothing were
full, `base_time` the same at idle memory; both tell time lost apart. `pace` is what others of its gang leave
it, `pace_cause` why; `gpus` counts those that it holds."""

NODE_DTYPE: Final = _record(
    "memory disk_base bucket_size bucket_level bucket_s disk_since load anon cache gpu_used",
    "count up queued slack nets tight gpus",
    nominal=("f8", LOCAL_RESOURCES),
    factor=("f8", LOCAL_RESOURCES),
    used=("f8", LOCAL_RESOURCES),
)
"""A node. `slack`: no resource could be full whatever the links allow, so a link's change cannot touch
others."""

NET_DTYPE: Final = _record(
    "cap rate key clock_seen",
    "row slot task bound flows child sibling previous",
    bytes=("f8", FLOW_SLOTS),
    weight=("f8", FLOW_SLOTS),
    link=("i8", FLOW_SLOTS),
    next=("i8", FLOW_SLOTS),
    prev=("i8", FLOW_SLOTS),
    pair=("i8", FLOW_SLOTS),
)
"""The traffic of a running task. `bound` ≥ 0: held back by that link (slot of `link` given by `at`), its end
is
`key` on the link's clock, in the link's pairing heap (`child`, `sibling`, `previous`). Else it runs at
`rate`, which its node allows (`cap`). Flow j is entry net·FLOW_SLOTS + j of the link's list."""

LINK_DTYPE: Final = _record(
    "nominal factor capacity level clock updated_s usage slope foreign_max cap_min carried",
    "flows attached attached_local head heap pairs cause queued seen",
)
"""A link. `level` θ: bytes per second and weight for those it holds back (inf = not full); `clock` = ∫θ dt,
on which their remaining work is constant; `slope` = Σ weight of those; `usage` of all; `foreign_max` ≥ the
largest share of those held back elsewhere and `cap_min` ≤ the smallest own cap of those held back here,
both in bytes per second and weight."""

PAIR_DTYPE: Final = _record("slope ratio_max", "link other count next prev chain")
"""How the level of `link` moves the usage of `other`: d usage / d level, over the tasks that `link` holds
back."""

EVENT_DTYPE: Final = _record("time_s", "kind task row")
CHANGE_DTYPE: Final = _record("time_s factor", "kind index column entry")

COUNTER_DTYPE: Final = _record(
    "now_s",
    "tasks starts changes_next events event_total solves sweeps relaxations failed running net_free "
    "pair_free node_head node_queue link_head link_queue settlings heap woken contention fabric roots "
    "with_flows rounds",
)
"""Everything that is one number. `net_free`, `pair_free` head lists of unused records; the rest are lengths
and counts."""


class State(NamedTuple):
    """All arrays of the kernel, handed to compiled functions as one."""

    nodes: NDArray[np.void]
    slots: NDArray[np.void]
    tasks: NDArray[np.void]
    nets: NDArray[np.void]
    links: NDArray[np.void]
    pairs: NDArray[np.void]
    pair_table: NDArray[np.int64]
    own_links: NDArray[np.int64]
    phases: NDArray[np.void]
    first_phase: NDArray[np.int64]
    changes: NDArray[np.void]
    heap_time: NDArray[np.float64]
    heap_item: NDArray[np.int64]
    heap_place: NDArray[np.int64]
    start_time: NDArray[np.float64]
    start_task: NDArray[np.int64]
    node_queue: NDArray[np.int64]
    link_queue: NDArray[np.int64]
    events: NDArray[np.void]
    scratch: NDArray[np.float64]
    scratch_whole: NDArray[np.int64]
    matrix: NDArray[np.float64]
    laws: NDArray[np.float64]
    gpu_curve: NDArray[np.float64]
    counters: NDArray[np.void]


def grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return `array` with room for `length` rows: itself, or a copy of twice the size, the rest zeros."""
    if array.shape[0] >= length:
        return array
    larger = np.zeros((max(length, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


def copy_of(state: State) -> State:
    """Copy every table: a state of its own, at the same instant."""
    tables: dict[str, NDArray[Any]] = {name: table.copy() for name, table in state._asdict().items()}
    return state._replace(**tables)


def fresh_pairs(length: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Make an empty pool of pairs and its hash table (a power of two, −1 = empty)."""
    pairs = np.zeros(length, PAIR_DTYPE)
    pairs["next"] = np.arange(1, length + 1)
    pairs["next"][-1:] = -1
    size = 1 << max(4, (2 * length - 1).bit_length())
    return pairs, np.full(size, -1, np.int64)
