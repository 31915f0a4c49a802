"""Rules that order the pending tasks."""

from stowplan.core.policy.orders.queue import by_arrival, by_duration, by_remaining_work, by_upward_rank
from stowplan.core.policy.orders.ranked import CombinedRank, HeftRank, OptimisticCost, ProcessRank

__all__ = [
    "CombinedRank",
    "HeftRank",
    "OptimisticCost",
    "ProcessRank",
    "by_arrival",
    "by_duration",
    "by_remaining_work",
    "by_upward_rank",
]
