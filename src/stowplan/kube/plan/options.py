"""What a plan may change, and what is known from earlier runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from stowplan.core.domain import ClassKey
from stowplan.errors import InvalidInput
from stowplan.kube.argo import ControllerSettings

__all__ = [
    "DEFAULT_EXPECTED_S",
    "DEFAULT_REQUESTS",
    "DEFAULT_SCHEDULER",
    "History",
    "Mode",
    "PlanOptions",
    "Preference",
    "Referencing",
    "Requests",
]

DEFAULT_SCHEDULER: Final = "stowplan"
DEFAULT_EXPECTED_S: Final = 60.0
"""Expected seconds of a task without history: all the same, so that ranks then count tasks."""

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LABEL_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LONGEST_SUBDOMAIN: Final = 253
_MIB: Final = 1 << 20


class Mode(StrEnum):
    """How Stowplan acts on pods."""

    BINDER = "binder"
    """It is their scheduler and binds them."""
    GATE = "gate"
    """It holds them by a scheduling gate, which it takes away in its own order; another scheduler places."""
    EXTENDER = "extender"
    """kube-scheduler asks it for scores; the order is kube-scheduler's."""


class Referencing(StrEnum):
    """`workflowRestrictions.templateReferencing` of the controller."""

    NONE = "none"
    STRICT = "strict"
    SECURE = "secure"


@dataclass(frozen=True, slots=True)
class Requests:
    """What a container asks for."""

    cpu_milli: int
    memory_bytes: int

    def __post_init__(self) -> None:
        """Refuse what is no amount.

        Raises:
            InvalidInput: an amount is not positive.
        """
        for name in ("cpu_milli", "memory_bytes"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"requests: {name} is {getattr(self, name)}; it must be above 0")

    def quantities(self) -> dict[str, str]:
        """Return the quantities as manifests have them; memory is rounded up to MiB."""
        return {"cpu": f"{self.cpu_milli}m", "memory": f"{-(-self.memory_bytes // _MIB)}Mi"}


DEFAULT_REQUESTS: Final = Requests(cpu_milli=100, memory_bytes=128 * _MIB)
"""Of a container without history: near what kube-scheduler counts for one without requests."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Nodes with one of these values of a label are preferred, by a weight of 1–100."""

    label: str
    values: tuple[str, ...]
    weight: int = 50

    def __post_init__(self) -> None:
        """Refuse what the API server would refuse.

        Raises:
            InvalidInput: the label, a value or the weight cannot be used.
        """
        prefix, slash, name = self.label.rpartition("/")
        if not _LABEL_PART.fullmatch(name) or (slash and not _is_subdomain(prefix)):
            raise InvalidInput(f"{self.label!r} is no label; write a key such as topology.kubernetes.io/zone")
        for value in self.values:
            if not _LABEL_PART.fullmatch(value):
                raise InvalidInput(f"{value!r} is no value of the label {self.label}; correct it")
        if not self.values:
            raise InvalidInput(f"no value of the label {self.label} is preferred; name at least one")
        if not 1 <= self.weight <= 100:
            raise InvalidInput(f"the weight of {self.label} is {self.weight}; it must be within 1 and 100")

    def term(self) -> dict[str, object]:
        """Return the preferred node affinity."""
        expression = {"key": self.label, "operator": "In", "values": list(self.values)}
        return {"weight": self.weight, "preference": {"matchExpressions": [expression]}}


def _nothing(key: ClassKey) -> None:
    del key


@dataclass(frozen=True, slots=True)
class History:
    """What earlier runs tell of a class: the expected seconds, and fitting requests; None: nothing."""

    expected_s: Callable[[ClassKey], float | None] = _nothing
    requests: Callable[[ClassKey], Requests | None] = _nothing


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What a plan is made for.

    Attributes:
        mode: how Stowplan acts on the pods.
        scheduler_name: the scheduler that pods are given to; empty: `stowplan` in binder mode, else theirs.
        priority_classes: names of PriorityClasses of the cluster, the lowest first; empty: none are used.
        requests: what containers without history and without requests get; None: nothing.
        preferences: nodes that are preferred.
        referencing: what the controller demands of workflows.
        allowed_fields: fields of the specification that may be set despite of it
            (`WORKFLOW_USER_OVERRIDE_ALLOWLIST` of the controller).
        settings: the controller's other settings, as far as they are known.
    """

    mode: Mode = Mode.BINDER
    scheduler_name: str = ""
    priority_classes: tuple[str, ...] = ()
    requests: Requests | None = DEFAULT_REQUESTS
    preferences: tuple[Preference, ...] = ()
    referencing: Referencing = Referencing.NONE
    allowed_fields: frozenset[str] = frozenset()
    settings: ControllerSettings = field(default_factory=ControllerSettings)

    def __post_init__(self) -> None:
        """Refuse names that no object can have.

        Raises:
            InvalidInput: a name cannot be used, or is given twice.
        """
        if self.scheduler_name and not _is_subdomain(self.scheduler_name):
            raise InvalidInput(
                f"scheduler name {self.scheduler_name!r}: write lower-case letters, digits, - and ."
            )
        for name in self.priority_classes:
            if not _is_subdomain(name):
                raise InvalidInput(f"priority class {name!r}: write lower-case letters, digits, - and .")
        if len(set(self.priority_classes)) < len(self.priority_classes):
            raise InvalidInput(
                f"priority classes {', '.join(self.priority_classes)}: one is named twice; name each once"
            )

    @property
    def wanted_scheduler(self) -> str:
        """The scheduler that pods are to be given to, empty where they stay with theirs."""
        return self.scheduler_name or (DEFAULT_SCHEDULER if self.mode is Mode.BINDER else "")
