"""Rules that score nodes for one task."""

from stowplan.core.policy.nodes.base import NodeRule

__all__ = ["NodeRule"]
