"""Priority queues of the kernel: next events, starts to come, and tasks held back by a link.

* An indexed binary heap holds one entry per node and per link, keyed (time, index); changing a key moves the
  entry, so nothing stale is ever popped and an event costs O(log n).
* A plain binary heap holds starts, keyed (time, task id).
* A pairing heap per link (Fredman, Sedgewick, Sleator and Tarjan, 1986) holds the tasks it holds back, keyed
  (end on the link's clock, task id); linked through the records themselves, so that links of any size share
  one pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.kernel.views import Handle, counters_of, heap_item_of, heap_place_of, heap_time_of

__all__ = [
    "heap_move",
    "pairing_insert",
    "pairing_remove",
    "schedule",
    "start_pop",
    "start_push",
]


@inner
def _before(time: NDArray[np.float64], a: int, b: int) -> bool:
    return time[a] < time[b] or (time[a] == time[b] and a < b)


@inner
def heap_move(
    time: NDArray[np.float64],
    item: NDArray[np.int64],
    place: NDArray[np.int64],
    count: int,
    index: int,
    time_s: float,
) -> int:
    """Set the time of entry `index`; inf takes it out. Returns the new number of entries.

    Args:
        time: (n,) time of each entry.
        item: (n,) heap order: item[0] is the next.
        place: (n,) where an entry is in `item`; −1 = not in the heap.
        count: entries in the heap.
        index: the entry.
        time_s: its new time.
    """
    at = place[index]
    time[index] = time_s
    if at < 0:
        if time_s == np.inf:
            return count
        at = count
        item[at] = index
        place[index] = at
        count += 1
    elif time_s == np.inf:
        count -= 1
        place[index] = -1
        if at == count:
            return count
        index = item[count]
        item[at] = index
        place[index] = at
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(time, index, item[parent]):
            break
        item[at] = item[parent]
        place[item[at]] = at
        at = parent
    item[at] = index
    place[index] = at
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(time, item[child + 1], item[child]):
            child += 1
        if not _before(time, item[child], index):
            break
        item[at] = item[child]
        place[item[at]] = at
        at = child
    item[at] = index
    place[index] = at
    return count


@inner
def schedule(state: Handle, index: int, time_s: float) -> None:
    """Set when node or link `index` (links count on from the nodes) has its next event; inf = none."""
    counters = counters_of(state)[0]
    counters.heap = heap_move(
        heap_time_of(state), heap_item_of(state), heap_place_of(state), counters.heap, index, time_s
    )


@inner
def _starts_before(time_a: float, task_a: int, time_b: float, task_b: int) -> bool:
    return time_a < time_b or (time_a == time_b and task_a < task_b)


@inner
def start_push(
    time: NDArray[np.float64], task: NDArray[np.int64], count: int, time_s: float, task_id: int
) -> None:
    """Add a start to the `count` there are."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if not _starts_before(time_s, task_id, time[parent], task[parent]):
            break
        time[at] = time[parent]
        task[at] = task[parent]
        at = parent
    time[at] = time_s
    task[at] = task_id


@inner
def start_pop(time: NDArray[np.float64], task: NDArray[np.int64], count: int) -> int:
    """Take out the first of `count` > 0 starts and return its task."""
    first = task[0]
    last = count - 1
    time_s = time[last]
    task_id = task[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and _starts_before(time[child + 1], task[child + 1], time[child], task[child]):
            child += 1
        if not _starts_before(time[child], task[child], time_s, task_id):
            break
        time[at] = time[child]
        task[at] = task[child]
        at = child
    time[at] = time_s
    task[at] = task_id
    return int(first)


@inner
def _meld(nets: NDArray[np.void], a: int, b: int) -> int:
    """Make the later of two roots the first child of the other."""
    if a < 0:
        return b
    if b < 0:
        return a
    first = a
    later = b
    if nets[b].key < nets[a].key or (nets[b].key == nets[a].key and nets[b].task < nets[a].task):
        first = b
        later = a
    child = nets[first].child
    nets[later].sibling = child
    nets[later].previous = first
    if child >= 0:
        nets[child].previous = later
    nets[first].child = later
    nets[first].sibling = -1
    nets[first].previous = -1
    return first


@inner
def pairing_insert(nets: NDArray[np.void], root: int, net: int) -> int:
    """Add `net` with its `key` to the heap with this `root` (−1 = empty); returns the new root."""
    nets[net].child = -1
    nets[net].sibling = -1
    nets[net].previous = -1
    return _meld(nets, root, net)


@inner
def _merge_siblings(nets: NDArray[np.void], first: int) -> int:
    """Join a list of siblings into one heap: pairs from the left, then all from the right."""
    joined = -1
    while first >= 0:
        a = first
        b = nets[a].sibling
        first = -1
        nets[a].sibling = -1
        nets[a].previous = -1
        if b >= 0:
            first = nets[b].sibling
            nets[b].sibling = -1
            nets[b].previous = -1
        pair = _meld(nets, a, b)
        nets[pair].sibling = joined
        joined = pair
    root = -1
    while joined >= 0:
        after = nets[joined].sibling
        nets[joined].sibling = -1
        root = _meld(nets, root, joined)
        joined = after
    return root


@inner
def pairing_remove(nets: NDArray[np.void], root: int, net: int) -> int:
    """Take `net` out of the heap with this `root`; returns the new root, −1 when it is empty."""
    rest = _merge_siblings(nets, nets[net].child)
    nets[net].child = -1
    if net == root:
        return rest
    previous = nets[net].previous
    sibling = nets[net].sibling
    if nets[previous].child == net:
        nets[previous].child = sibling
    else:
        nets[previous].sibling = sibling
    if sibling >= 0:
        nets[sibling].previous = previous
    nets[net].sibling = -1
    nets[net].previous = -1
    return _meld(nets, root, rest)
