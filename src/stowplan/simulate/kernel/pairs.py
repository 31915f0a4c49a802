"""How the level of one link moves the usage of the others: the sums over the tasks it holds back.

A pool of records, found by (link, other) through a chained hash table and listed by link. A pair lives as
long as the link holds back a task that also crosses the other.
"""

from __future__ import annotations

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.kernel.views import Handle, counters_of, links_of, pair_table_of, pairs_of

__all__ = ["drop_pair", "pair_of", "rehash_pairs"]


@inner
def pair_of(state: Handle, link_id: int, other: int) -> int:
    """Find or make the pair (link, other)."""
    counters = counters_of(state)[0]
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    link_count = links.shape[0]
    place = ((link_id * link_count + other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
    found = pair_table[place]
    while found >= 0:
        if pairs[found].link == link_id and pairs[found].other == other:
            return int(found)
        found = pairs[found].chain
    found = counters.pair_free
    pair = pairs[found]
    counters.pair_free = pair.next
    pair.link = link_id
    pair.other = other
    pair.count = 0
    pair.slope = 0.0
    pair.ratio_max = 0.0
    pair.chain = pair_table[place]
    pair_table[place] = found
    pair.prev = -1
    pair.next = links[link_id].pairs
    if pair.next >= 0:
        pairs[pair.next].prev = found
    links[link_id].pairs = found
    return int(found)


@compiled
def rehash_pairs(state: Handle) -> None:
    """Enter all pairs that links know into an empty table (after it grew)."""
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    link_count = links.shape[0]
    for link_id in range(link_count):
        pair_id = links[link_id].pairs
        while pair_id >= 0:
            pair = pairs[pair_id]
            place = ((link_id * link_count + pair.other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
            pair.chain = pair_table[place]
            pair_table[place] = pair_id
            pair_id = pair.next


@inner
def drop_pair(state: Handle, pair_id: int) -> None:
    """Give an unused pair back to the pool."""
    counters = counters_of(state)[0]
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    pair = pairs[pair_id]
    link_count = links.shape[0]
    place = ((pair.link * link_count + pair.other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
    if pair_table[place] == pair_id:
        pair_table[place] = pair.chain
    else:
        at = pair_table[place]
        while pairs[at].chain != pair_id:
            at = pairs[at].chain
        pairs[at].chain = pair.chain
    if pair.prev >= 0:
        pairs[pair.prev].next = pair.next
    else:
        links[pair.link].pairs = pair.next
    if pair.next >= 0:
        pairs[pair.next].prev = pair.prev
    pair.next = counters.pair_free
    counters.pair_free = pair_id
