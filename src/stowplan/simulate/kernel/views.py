"""How compiled code reaches the tables of the kernel: views of `State` behind one handle."""

from __future__ import annotations

import numpy as np
from numba import carray
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.core.physics.handles import Handle, pointer
from stowplan.simulate.kernel.state import (
    CHANGE_DTYPE,
    COUNTER_DTYPE,
    EVENT_DTYPE,
    LINK_DTYPE,
    NET_DTYPE,
    NODE_DTYPE,
    PAIR_DTYPE,
    PHASE_DTYPE,
    SLOT_DTYPE,
    TASK_DTYPE,
)

__all__ = [
    "Handle",
    "changes_of",
    "counters_of",
    "events_of",
    "first_phase_of",
    "gpu_curve_of",
    "heap_item_of",
    "heap_place_of",
    "heap_time_of",
    "laws_of",
    "link_queue_of",
    "links_of",
    "matrix_of",
    "nets_of",
    "node_queue_of",
    "nodes_of",
    "own_links_of",
    "pair_table_of",
    "pairs_of",
    "phases_of",
    "scratch_of",
    "scratch_whole_of",
    "slots_of",
    "start_task_of",
    "start_time_of",
    "tasks_of",
]

_FLOAT = np.dtype("f8")
_WHOLE = np.dtype("i8")


@inner
def nodes_of(handle: Handle) -> NDArray[np.void]:
    """View `State.nodes`."""
    return carray(pointer(handle[0]), (handle[1],), NODE_DTYPE)


@inner
def slots_of(handle: Handle) -> NDArray[np.void]:
    """View `State.slots`."""
    return carray(pointer(handle[3]), (handle[4], handle[5]), SLOT_DTYPE)


@inner
def tasks_of(handle: Handle) -> NDArray[np.void]:
    """View `State.tasks`."""
    return carray(pointer(handle[6]), (handle[7],), TASK_DTYPE)


@inner
def nets_of(handle: Handle) -> NDArray[np.void]:
    """View `State.nets`."""
    return carray(pointer(handle[9]), (handle[10],), NET_DTYPE)


@inner
def links_of(handle: Handle) -> NDArray[np.void]:
    """View `State.links`."""
    return carray(pointer(handle[12]), (handle[13],), LINK_DTYPE)


@inner
def pairs_of(handle: Handle) -> NDArray[np.void]:
    """View `State.pairs`."""
    return carray(pointer(handle[15]), (handle[16],), PAIR_DTYPE)


@inner
def pair_table_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.pair_table`."""
    return carray(pointer(handle[18]), (handle[19],), _WHOLE)


@inner
def own_links_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.own_links`."""
    return carray(pointer(handle[21]), (handle[22], handle[23]), _WHOLE)


@inner
def phases_of(handle: Handle) -> NDArray[np.void]:
    """View `State.phases`."""
    return carray(pointer(handle[24]), (handle[25],), PHASE_DTYPE)


@inner
def first_phase_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.first_phase`."""
    return carray(pointer(handle[27]), (handle[28],), _WHOLE)


@inner
def changes_of(handle: Handle) -> NDArray[np.void]:
    """View `State.changes`."""
    return carray(pointer(handle[30]), (handle[31],), CHANGE_DTYPE)


@inner
def heap_time_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.heap_time`."""
    return carray(pointer(handle[33]), (handle[34],), _FLOAT)


@inner
def heap_item_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.heap_item`."""
    return carray(pointer(handle[36]), (handle[37],), _WHOLE)


@inner
def heap_place_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.heap_place`."""
    return carray(pointer(handle[39]), (handle[40],), _WHOLE)


@inner
def start_time_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.start_time`."""
    return carray(pointer(handle[42]), (handle[43],), _FLOAT)


@inner
def start_task_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.start_task`."""
    return carray(pointer(handle[45]), (handle[46],), _WHOLE)


@inner
def node_queue_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.node_queue`."""
    return carray(pointer(handle[48]), (handle[49],), _WHOLE)


@inner
def link_queue_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.link_queue`."""
    return carray(pointer(handle[51]), (handle[52],), _WHOLE)


@inner
def events_of(handle: Handle) -> NDArray[np.void]:
    """View `State.events`."""
    return carray(pointer(handle[54]), (handle[55],), EVENT_DTYPE)


@inner
def scratch_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.scratch`."""
    return carray(pointer(handle[57]), (handle[58], handle[59]), _FLOAT)


@inner
def scratch_whole_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.scratch_whole`."""
    return carray(pointer(handle[60]), (handle[61], handle[62]), _WHOLE)


@inner
def matrix_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.matrix`."""
    return carray(pointer(handle[63]), (handle[64],), _FLOAT)


@inner
def laws_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.laws`."""
    return carray(pointer(handle[66]), (handle[67],), _FLOAT)


@inner
def gpu_curve_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.gpu_curve`."""
    return carray(pointer(handle[69]), (handle[70], handle[71]), _FLOAT)


@inner
def counters_of(handle: Handle) -> NDArray[np.void]:
    """View `State.counters`."""
    return carray(pointer(handle[72]), (handle[73],), COUNTER_DTYPE)
