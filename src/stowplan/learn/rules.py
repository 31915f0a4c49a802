"""Rules to learn from, beside the policies that anybody can name: what the network starts from."""

from __future__ import annotations

from stowplan.core.policy import Policy, make_policy
from stowplan.core.policy.listing import ListPolicy
from stowplan.core.policy.nodes.finish_time import EarliestFinish
from stowplan.core.policy.orders import by_remaining_work

__all__ = ["FIRST_RULE", "make_rule"]

FIRST_RULE = "srpt-fastest"
"""Least remaining work first, on the fastest machine type: what the untrained network does."""


def make_rule(name: str) -> Policy:
    """Make a rule by name: `FIRST_RULE`, or any policy.

    Raises:
        UnknownName: there is no such policy.
    """
    if name == FIRST_RULE:
        return ListPolicy(FIRST_RULE, by_remaining_work, EarliestFinish())
    return make_policy(name)
