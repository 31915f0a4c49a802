"""Rules to learn from, beside the policies that anybody can name: what the network starts from."""

from __future__ import annotations

from stowplan.core.policy import Policy, make_policy
from stowplan.core.policy.listing import ListPolicy
from stowplan.core.policy.nodes.finish_time import EarliestFinish
from stowplan.core.policy.nodes.measured import MeasuredDuration
from stowplan.core.policy.orders import by_remaining_work

__all__ = ["FASTEST_RULE", "FIRST_RULE", "make_rule"]

FIRST_RULE = "srpt-estimated"
"""Least remaining work first, where `srpt-measured` estimates the earliest end, before it solves anything:
what the untrained network does."""
FASTEST_RULE = "srpt-fastest"
"""Least remaining work first, on the fastest machine type: it sees no contention, and so meets much of it."""


def make_rule(name: str) -> Policy:
    """Make a rule by name: `FIRST_RULE`, `FASTEST_RULE`, or any policy.

    Raises:
        UnknownName: there is no such policy.
    """
    if name == FIRST_RULE:
        return ListPolicy(name, by_remaining_work, MeasuredDuration(solved_nodes=0))
    if name == FASTEST_RULE:
        return ListPolicy(name, by_remaining_work, EarliestFinish())
    return make_policy(name)
