"""Policies: they order tasks and score nodes; constraints and capacity are not theirs to judge."""

from stowplan.core.policy.interface import CycleView, Plan, Policy
from stowplan.core.policy.registry import make_policy, policy_names

__all__ = ["CycleView", "Plan", "Policy", "make_policy", "policy_names"]
