"""Policies: they order tasks and score nodes; constraints and capacity are not theirs to judge."""

from stowplan.core.policy.interface import CycleView, Plan, Policy

__all__ = ["CycleView", "Plan", "Policy"]
