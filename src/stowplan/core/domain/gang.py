"""A gang: tasks that are of use only together, such as the workers of one training job.

Kubernetes' own word for it is a PodGroup with the gang policy (KEP-4671); coscheduling, Volcano and Kueue
have the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.errors import InvalidWorkflow

__all__ = ["Gang"]


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang that a task belongs to: `name` within its workflow, and how many tasks it has.

    Raises:
        InvalidWorkflow: it has no task.
    """

    name: str
    size: int

    def __post_init__(self) -> None:
        """Check the size."""
        if self.size < 1:
            raise InvalidWorkflow(f"gang {self.name!r} has size {self.size}; it needs at least 1 task")
