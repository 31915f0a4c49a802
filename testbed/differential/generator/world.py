"""What the parts of the generator share: the source of chance, how much is wanted of what, what is there.

A cluster in which everything happens everywhere refuses every pod for five reasons at once, and no single
filter is put to the test. So each cluster has an *emphasis*, one filter whose features are common there,
while all others are rare: what that filter alone refuses then decides the verdict of many nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

__all__ = ["APART", "EMPHASES", "FEATURES", "Manifest", "World", "dials_for"]

Manifest = dict[str, Any]
T = TypeVar("T")

FEATURES: Final = (
    "unschedulable",
    "taints",
    "node-affinity",
    "ports",
    "resources",
    "restrictions",
    "limits",
    "binding",
    "zone",
    "spread",
    "interpod",
    "node-features",
    "gates",
    "devices",
    "nominated",
    "scores",
)
"""What can be turned up: each makes some filter (the last: only scores) matter."""

EMPHASES: Final[dict[str, tuple[str, ...]]] = {
    "NodeUnschedulable": ("unschedulable",),
    "TaintToleration": ("taints",),
    "NodeAffinity": ("node-affinity",),
    "NodePorts": ("ports",),
    "NodeResourcesFit": ("resources",),
    "VolumeRestrictions": ("restrictions",),
    "NodeVolumeLimits": ("limits",),
    "VolumeBinding": ("binding",),
    "VolumeZone": ("zone",),
    "PodTopologySpread": ("spread",),
    "InterPodAffinity": ("interpod",),
    "NodeDeclaredFeatures": ("node-features",),
    "SchedulingGates": ("gates",),
    "DynamicResources": ("devices",),
    "nominated": ("nominated", "resources"),
    "volumes": ("restrictions", "limits", "binding", "zone"),
    "pods": ("spread", "interpod", "nominated"),
    "scores": ("scores",),
    "everything": (),
}
"""By name of an emphasis, the features that are common there; `everything`: all are fairly common."""

APART: Final[dict[str, tuple[str, ...]]] = {
    "devices": ("devices",),
    "owners": ("scores",),
    "preemption": (),
}
"""Emphases that only those get who ask for them: devices to claim, pods with controllers, crowds."""

_RARE: Final = 0.05
_COMMON: Final = 0.85
_FAIR: Final = 0.3
_RARELY_ANYTHING: Final = 0.015


def dials_for(emphasis: str) -> dict[str, float]:
    """Return how likely each feature is.

    Raises:
        ValueError: there is no such emphasis.
    """
    common = (EMPHASES | APART).get(emphasis)
    if common is None:
        raise ValueError(f"emphasis is {emphasis!r}; use one of {', '.join((*EMPHASES, *APART))}")
    usual = _FAIR if emphasis == "everything" else _RARE
    dials = {feature: _COMMON if feature in common else usual for feature in FEATURES}
    for feature in ("gates", "devices"):  # they refuse every node, and so hide all else
        dials[feature] = 0.4 if feature in common else _RARELY_ANYTHING
    return dials


@dataclass(slots=True)
class World:
    """One cluster in the making.

    Attributes:
        rng: The only source of chance.
        dials: How likely each feature is, 0–1.
        namespaces: Their names.
        nodes: Names of the nodes, known before the nodes are.
        zones: Values of the zone label.
        early: Objects that pods refer to, in the order in which they are made.
        priorities: Priority classes by name.
        claims: Claims by (namespace, kind).
        used: Whether a feature was ever asked for, so that what serves it can be left out otherwise.
    """

    rng: Random
    dials: Mapping[str, float]
    namespaces: tuple[str, ...] = ("blue", "red", "green")
    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ("za", "zb", "zc")
    early: list[Manifest] = field(default_factory=list[Manifest])
    priorities: dict[str, int] = field(default_factory=dict[str, int])
    claims: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    used: set[str] = field(default_factory=set[str])
    counter: int = 0

    def chance(self, probability: float) -> bool:
        """Tell yes with that probability."""
        return self.rng.random() < probability

    def has(self, feature: str, share: float = 1.0) -> bool:
        """Tell whether a feature happens here; `share` of the times that its dial says so."""
        return self.rng.random() < self.dials[feature] * share

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`."""
        return options[int(self.rng.random() * len(options))]

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Return `least` to `most` different ones of `options`."""
        return self.rng.sample(options, min(self.rng.randint(least, most), len(options)))

    def number(self) -> int:
        """Return a number that no other call returns."""
        self.counter += 1
        return self.counter
