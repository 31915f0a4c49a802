"""What breaks, when and for how long: a schedule of faults, drawn from a seed or written out.

A `FaultRule` says what may happen to which nodes, at given times or as a Poisson process; `FaultPlan.parse`
reads rules from a document such as

    faults:
      - kind: node-not-ready        # network, storage or kernel: what the node's evidence would show
        cause: kernel
        nodes: [worker-3]           # or `racks: [r1]`, `zones: [z2]`; nothing: any node
        at_s: [600]                 # or `every_s: 3600`, the mean gap of a Poisson process
        duration_s: 120
      - kind: disk-stall
        every_s: 1800
        duration_s: 20
        duration: exponential       # 20 s is then the mean
        factor: 0.02                # what is left of the disk

What each kind does to tasks and to the scheduler's view is told at `FaultKind`. Occurrences are drawn one at
a time and rule by rule from its own generator, so a rule that is added does not move the faults of the
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

import numpy as np

from stowplan.core.domain import RACK_LABEL, ZONE_LABEL, Node
from stowplan.errors import InvalidInput, UnknownName

__all__ = ["NO_FAULTS", "Cause", "Fault", "FaultKind", "FaultPlan", "FaultRule"]


class FaultKind(StrEnum):
    """What can break."""

    NODE_NOT_READY = "node-not-ready"
    """The node falls silent. After `node_monitor_grace_s` it is tainted unreachable and gets no new pods; its
    pods are given up `unreachable_toleration_s` later. What its tasks notice depends on the cause, see
    `Cause`."""
    DISK_STALL = "disk-stall"
    """The disk keeps `factor` of its rate. The node stays Ready."""
    PCIE_LINK_DOWN = "pcie-link-down"
    """Root complex `root_complex` keeps `factor` of its bandwidth. The node stays Ready."""
    RACK_OUTAGE = "rack-outage"
    """Every node of one rack loses power at once: each as NODE_NOT_READY by kernel."""
    SPOT_RECLAIM = "spot-reclaim"
    """The provider takes the node back: cordoned at once, gone `notice_s` later with what still runs there.
    It returns after `duration_s` (0: never)."""
    API_SLOW = "api-slow"
    """The API server answers `delay_s` later: every cycle and every binding waits for it."""


class Cause(StrEnum):
    """Why a node is NotReady."""

    KERNEL = "kernel"
    """Hung, panicked or without power: its tasks stand still, and are lost when it comes back from the
    reboot."""
    NETWORK = "network"
    """Cut off: tasks that need the network stand still, the others run on; nobody hears of their ends until
    the node is back."""
    STORAGE = "storage"
    """Its disk hangs, and the kubelet with it: as NETWORK, but tasks that need the disk stand still."""


_DEFAULT_FACTOR: Final = {FaultKind.DISK_STALL: 0.02, FaultKind.PCIE_LINK_DOWN: 0.0}
_NEEDS_DURATION: Final = frozenset(FaultKind) - {FaultKind.SPOT_RECLAIM}


@dataclass(frozen=True, slots=True)
class Fault:
    """One occurrence. `nodes` are node names in cluster order; empty for API_SLOW."""

    time_s: float
    duration_s: float
    nodes: tuple[str, ...]
    rule: FaultRule


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """What happens, to whom and when.

    Exactly one of `at_s` (times in seconds) and `every_s` (mean seconds between occurrences, Poisson over all
    targets together) is given. Targets are the nodes that are named, or carry a named rack or zone label; all
    nodes when none is named. Explicit times strike every target; a Poisson occurrence one target (for a rack
    outage: one rack), drawn evenly.

    Raises:
        InvalidInput: a number is out of range or a combination has no meaning; the message names it.
    """

    kind: FaultKind
    cause: Cause = Cause.KERNEL
    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    at_s: tuple[float, ...] = ()
    every_s: float | None = None
    from_s: float = 0.0
    until_s: float = math.inf
    duration_s: float = 0.0
    duration_is_exponential: bool = False
    factor: float | None = None
    root_complex: int = 0
    notice_s: float = 0.0
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers and that they go together."""
        problem = next(self._problems(), None)
        if problem is not None:
            raise InvalidInput(f"fault {self.kind}: {problem}")

    def _problems(self) -> Iterator[str]:
        for name in ("duration_s", "notice_s", "delay_s", "from_s", "root_complex", "at_s"):
            value: float | tuple[float, ...] = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if not (math.isfinite(number) and number >= 0.0):
                    yield f"{name} is {number}; it must be a finite number of 0 or more"
        yield from self._timing_problems()
        if self.kind in _NEEDS_DURATION and self.duration_s == 0.0:
            yield "duration_s is missing or 0; say how long it lasts"
        if self.kind is FaultKind.API_SLOW and self.delay_s == 0.0:
            yield "delay_s is missing or 0; say by how much it is slower"
        if self.factor is not None and self.kind not in _DEFAULT_FACTOR:
            yield "factor has no meaning here; it belongs to disk-stall and pcie-link-down"
        if not (0.0 <= self.remaining <= 1.0):
            yield f"factor is {self.factor}; it is what is left, between 0 and 1"

    def _timing_problems(self) -> Iterator[str]:
        if (self.every_s is None) == (not self.at_s):
            yield "give either at_s (times) or every_s (mean gap of a Poisson process)"
        if self.every_s is not None and not (math.isfinite(self.every_s) and self.every_s > 0.0):
            yield f"every_s is {self.every_s}; the mean gap must be a finite number above 0"
        if not self.until_s > self.from_s:
            yield f"until_s is {self.until_s}; it must lie after from_s ({self.from_s})"

    @property
    def remaining(self) -> float:
        """Share of the capacity that is left, where the kind has one."""
        return self.factor if self.factor is not None else _DEFAULT_FACTOR.get(self.kind, 0.0)

    def occurrences(self, nodes: Sequence[Node], rng: np.random.Generator) -> Iterator[Fault]:
        """Yield what happens, in order of time; endless for a Poisson process without `until_s`.

        Raises:
            InvalidInput: a named node, rack or zone does not exist.
        """
        groups = self._groups(nodes)
        everyone = tuple(name for group in groups for name in group)
        if self.every_s is None:
            for time_s in sorted(self.at_s):
                yield Fault(time_s, self._duration_s(rng), everyone, self)
            return
        time_s = self.from_s + float(rng.exponential(self.every_s))
        while time_s < self.until_s:
            struck = groups[int(rng.integers(len(groups)))] if groups else ()
            yield Fault(time_s, self._duration_s(rng), struck, self)
            time_s += float(rng.exponential(self.every_s))

    def _duration_s(self, rng: np.random.Generator) -> float:
        return float(rng.exponential(self.duration_s)) if self.duration_is_exponential else self.duration_s

    def _groups(self, nodes: Sequence[Node]) -> list[tuple[str, ...]]:
        """Return the targets; what is struck together is one group."""
        if self.kind is FaultKind.API_SLOW:
            return []
        for word, wanted, label in (("rack", self.racks, RACK_LABEL), ("zone", self.zones, ZONE_LABEL)):
            known = {value for node in nodes if (value := node.label(label)) is not None}
            for name in wanted:
                if name not in known:
                    raise UnknownName(f"{word} (of a {self.kind} fault)", name, known)
        names = {node.name for node in nodes}
        for name in self.nodes:
            if name not in names:
                raise UnknownName(f"node (of a {self.kind} fault)", name, names)
        is_narrowed = bool(self.nodes or self.racks or self.zones)
        targets = [
            node
            for node in nodes
            if not is_narrowed
            or node.name in self.nodes
            or node.label(RACK_LABEL) in self.racks
            or node.label(ZONE_LABEL) in self.zones
        ]
        if self.kind is not FaultKind.RACK_OUTAGE:
            return [(node.name,) for node in targets]
        racks: dict[tuple[str | None, str | None], list[str]] = {}
        for node in targets:
            racks.setdefault((node.label(ZONE_LABEL), node.label(RACK_LABEL)), []).append(node.name)
        return [tuple(members) for members in racks.values()]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All rules of a run."""

    rules: tuple[FaultRule, ...] = field(default_factory=tuple[FaultRule, ...])

    @classmethod
    def parse(cls, document: object, name: str) -> FaultPlan:
        """Read `{"faults": [rule, …]}` or the bare list; `name` is the file in messages.

        Raises:
            InvalidInput: not of this shape, an unknown key, or a value that is unusable; says which and
            where.
            UnknownName: a kind or cause that does not exist; offers the nearest.
        """
        listed: Any = document
        if isinstance(document, Mapping):
            mapping = cast("Mapping[Any, Any]", document)
            unknown = [key for key in mapping if key != "faults"]
            if unknown:
                raise InvalidInput(f"{name}: unknown key {unknown[0]!r}; the one key is 'faults'")
            listed = mapping.get("faults")
        if not isinstance(listed, list):
            raise InvalidInput(f"{name}: 'faults' must be a list of rules, not {type(listed).__name__}")
        rules = enumerate(cast("list[Any]", listed), start=1)
        return cls(tuple(_parse_rule(rule, f"{name}: fault {number}") for number, rule in rules))


NO_FAULTS: Final = FaultPlan()


def _parse_rule(rule: Any, where: str) -> FaultRule:  # noqa: ANN401  (a document is any)
    if not isinstance(rule, Mapping):
        raise InvalidInput(f"{where} is {rule!r}; a rule is a mapping with at least 'kind'")
    mapping = cast("Mapping[Any, Any]", rule)
    if "kind" not in mapping:
        raise InvalidInput(f"{where} has no 'kind'; give one of {', '.join(FaultKind)}")
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in _READERS:
            raise UnknownName(f"key ({where})", str(key), _READERS)
        field_name = "duration_is_exponential" if key == "duration" else key
        values[field_name] = _READERS[key](value, key, where)
    try:
        return FaultRule(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


def _kind(text: Any, key: str, where: str) -> FaultKind:  # noqa: ANN401
    if text not in tuple(FaultKind):
        raise UnknownName(f"{key} ({where})", str(text), [kind.value for kind in FaultKind])
    return FaultKind(text)


def _cause(text: Any, key: str, where: str) -> Cause:  # noqa: ANN401
    if text not in tuple(Cause):
        raise UnknownName(f"{key} ({where})", str(text), [cause.value for cause in Cause])
    return Cause(text)


def _number(number: Any, key: str, where: str) -> float:  # noqa: ANN401
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InvalidInput(f"{where}: {key} is {number!r}; give a number")
    return float(number)


def _numbers(numbers: Any, key: str, where: str) -> tuple[float, ...]:  # noqa: ANN401
    return tuple(_number(number, key, where) for number in _listed(numbers))


def _whole(number: Any, key: str, where: str) -> int:  # noqa: ANN401
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidInput(f"{where}: {key} is {number!r}; give a whole number")
    return number


def _names(names: Any, key: str, where: str) -> tuple[str, ...]:  # noqa: ANN401
    for name in _listed(names):
        if not isinstance(name, str):
            raise InvalidInput(f"{where}: {key} holds {name!r}; give names")
    return tuple(_listed(names))


def _is_exponential(word: Any, key: str, where: str) -> bool:  # noqa: ANN401
    if word not in ("fixed", "exponential"):
        raise InvalidInput(f"{where}: {key} is {word!r}; write 'fixed' or 'exponential'")
    return word == "exponential"


def _listed(value: Any) -> list[Any]:  # noqa: ANN401
    return cast("list[Any]", value) if isinstance(value, list) else [value]


_READERS: Final[Mapping[Any, Callable[[Any, str, str], object]]] = {
    "kind": _kind,
    "cause": _cause,
    "at_s": _numbers,
    "duration": _is_exponential,
    "root_complex": _whole,
    **dict.fromkeys(("nodes", "racks", "zones"), _names),
    **dict.fromkeys(("every_s", "from_s", "until_s", "duration_s", "factor", "notice_s", "delay_s"), _number),
}
