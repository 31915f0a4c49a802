"""How widely scenarios are drawn: one number for each thing that may differ between clusters, as YAML.

The curriculum scales what makes a scenario hard (size, heterogeneity, tenants, drift, faults, missing
features) by `difficulty`, 0 to 1; a scenario of difficulty 1 draws from the whole ranges, so easy ones stay
among the hard. All values are proposals: wide enough to hold the clusters and workflows that we know of, and
not fitted to any one of them.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from stowplan.errors import InvalidInput

__all__ = ["Range", "Ranges"]

Range = tuple[float, float]

_SHARES: Final = (
    "synthetic_share",
    "redrawn_share",
    "equal_share",
    "tenant_share",
    "drift_share",
    "fault_share",
    "gpu_share",
    "missing_share",
    "noisy_share",
    "estimate_error_share",
)
_KINDS: Final = ("synthetic_share", "redrawn_share", "equal_share")
"""Shares that say of what kind work is, not how hard it is."""


class Ranges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Ranges of a scenario: (least, most), both included.

    Raises:
        InvalidInput: a range is empty or out of bounds; the message names it.
    """

    nodes: tuple[int, int] = (4, 40)
    machine_types: tuple[int, int] = (1, 6)
    workflows: tuple[int, int] = (8, 40)
    most_tasks: int = 1500
    """Most tasks of an episode; workflows beyond it are left out, and those of more than a sixth of it."""
    load: Range = (0.3, 1.2)
    """What workflows ask of what is scarcest while they arrive, over what the cluster has of it; tasks that
    slow each other, tenants and drift take a quarter or more on top."""
    task_scale: Range = (0.1, 1.5)
    """Factor on recorded durations, log-uniform: fast and slow work beside disturbances of fixed length."""
    redrawn_share: float = 0.6
    """Chance that a program keeps only its place in the graph, and needs something else than recorded."""
    equal_share: float = 0.5
    """Chance that all tasks of a program are equal, as they are to who plans by its history."""
    heterogeneity: Range = (0.0, 0.45)
    """Standard deviation of the log speed of machine types."""
    synthetic_share: float = 0.35
    """Share of workflows that are random graphs, not recordings."""
    tenant_share: float = 0.6
    """Most share of nodes with a hidden tenant."""
    tenant_strength: Range = (0.2, 1.1)
    """Share of a machine's bandwidth, disk or cores that a tenant asks for."""
    drift_share: float = 0.8
    """Chance that a resource drifts."""
    fault_share: float = 0.4
    """Chance that a scenario has faults."""
    gpu_share: float = 0.2
    """Chance that a scenario has GPU nodes, and workflows that use them."""
    missing_share: float = 0.15
    """Chance, for each group of features, that the scenario lacks it."""
    noisy_share: float = 0.4
    """Chance that nodes are measured with noise, late, and not always."""
    estimate_error_share: float = 0.3
    """Chance that expected durations are off, by a factor drawn for each program."""

    def __post_init__(self) -> None:
        """Refuse ranges that hold nothing."""
        for name in ("nodes", "machine_types", "workflows", "load", "task_scale", "tenant_strength"):
            self._check(name, above=0.0)
        self._check("heterogeneity", above=-math.ulp(0.0))
        for name in _SHARES:
            share: float = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise InvalidInput(f"scenario range {name} is {share}; give a share between 0 and 1")
        if self.most_tasks < 1:
            raise InvalidInput(f"scenario range most_tasks is {self.most_tasks}; give at least 1")

    def _check(self, name: str, *, above: float) -> None:
        least, most = getattr(self, name)
        if not (math.isfinite(most) and above < least <= most):
            raise InvalidInput(
                f"scenario range {name} is {least} to {most}; give two ascending numbers above 0"
            )

    def at(self, difficulty: float) -> Ranges:
        """Return the ranges at a difficulty of 0 (the easy end of each) to 1 (all of it)."""
        share = min(max(difficulty, 0.0), 1.0)
        scaled = {name: share * getattr(self, name) for name in _SHARES if name not in _KINDS}
        least, most = self.nodes
        few_types, many_types = self.machine_types
        return msgspec.structs.replace(
            self,
            nodes=(least, round(least + share * (most - least))),
            machine_types=(few_types, round(few_types + share * (many_types - few_types))),
            heterogeneity=(self.heterogeneity[0], self.heterogeneity[0] + share * _width(self.heterogeneity)),
            **scaled,
        )


def _width(of: Range) -> float:
    return of[1] - of[0]
