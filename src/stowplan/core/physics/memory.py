"""Memory: page cache gives way first, anonymous memory kills.

Law with data (memory control groups, measured): reading 256 MB under a limit of 64 MB succeeds with the whole
usage being cache; growing anonymous memory past the limit is killed. A node under pressure evicts the pods
that are most above their request first (Kubernetes documentation, *Node-pressure eviction*).

Proposal: the cache that a task may keep is what its own limit leaves beside its anonymous memory, scaled down
evenly when the node has not room for everybody's; reads that the cache serves do not reach the disk, in
proportion to how much of the wanted cache there is.
"""

from __future__ import annotations

import math

from stowplan.core.physics.compile import compiled

__all__ = ["cache_allowed", "cache_scale", "disk_share_of_reads", "limit_passed_at"]


@compiled
def cache_allowed(cache_bytes: float, anon_bytes: float, limit_bytes: float) -> float:
    """Page cache that a task's own limit leaves it beside its anonymous memory, bytes."""
    return min(cache_bytes, max(limit_bytes - anon_bytes, 0.0))


@compiled
def cache_scale(cache_sum: float, anon_sum: float, allocatable: float) -> float:
    """Share of the allowed cache that fits on the node, 0 … 1."""
    room = max(allocatable - anon_sum, 0.0)
    return 1.0 if cache_sum <= room else room / cache_sum


@compiled
def disk_share_of_reads(hit: float, cache_bytes: float, cached_bytes: float) -> float:
    """Share of reads that reach the disk, 0 … 1, with `cached_bytes` of the wanted `cache_bytes` there."""
    if cache_bytes <= 0.0:
        return 1.0
    return 1.0 - hit * min(cached_bytes / cache_bytes, 1.0)


@compiled
def limit_passed_at(anon_start: float, anon_end: float, limit_bytes: float) -> float:
    """Share of a phase, 0 … 1, after which memory growing evenly passes the limit; inf when it does not."""
    if anon_start > limit_bytes:
        return 0.0
    if anon_end <= limit_bytes:
        return math.inf
    return (limit_bytes - anon_start) / (anon_end - anon_start)
