"""The operator's rule table: where tasks of a kind must, or must not, run.

The document (YAML or JSON, parsed by the caller) is

    version: 1 rules: - name: ml-on-big-gpus            # unique; every refusal names it tasks:
    # which pods; every condition given must hold, none given means all pods labels: {team: ml} namespaces:
    [research, "lab-*"] templates: ["train*"] expressions: [{key: tier, operator: NotIn, values: [debug]}]
    require:                        # or `forbid`; exactly one of the two gpu_model: [A100, "H100*"]

`require` accepts only the nodes that meet every condition in it; `forbid` refuses the nodes that meet every
condition in it. The conditions on nodes are

    node, zone, region, rack, machine_type, gpu_model   one name or a list of names, any of which fits; `*`
    and `?` are wildcards gpu_count                                           a comparison such as ">= 4"
    allocatable                                         comparisons by resource: {cpu: ">= 16", memory: "<
    64Gi"} labels                                              label values that the node must have
    expressions                                         as in a node selector term: In, NotIn, Exists,
    DoesNotExist, Gt, Lt

The document may also hold

    root_complexes: {spread: 0.4}

and then a node on which the GPUs that a pod asks for would be of several PCIe root complexes keeps 0.4 of its
score, whatever the policy (`spread` may be left out: 0.4). Without it nodes keep their scores. `rules` may
then be left out.

Comparisons are written `>= N`, `<= N`, `> N`, `< N`, `= N`, `!= N` with a Kubernetes quantity N. A node of
which a name is not known (no rack label, no GPU) does not meet a condition on it. Rules are independent of
each other: a node is refused when any rule refuses it.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import Rows, row_numbers
from stowplan.core.constraints.matching import requirement_met
from stowplan.core.domain import (
    CPU,
    MACHINE_TYPE_LABEL,
    RACK_LABEL,
    ZONE_LABEL,
    ClusterState,
    LabelSelector,
    Node,
    Operator,
    PodShape,
    Requirement,
    milli_value,
    value,
)
from stowplan.core.semantics.root_complexes import SPREAD_SCORE_FACTOR
from stowplan.errors import InvalidInput, InvalidObject, InvalidQuantity, UnknownName

__all__ = ["NO_RULES", "Comparison", "NodeCondition", "Rule", "RuleTable", "TaskCondition"]

_GPU_LABEL: Final = "nvidia.com/gpu.product"
_LABEL_OF: Final = {
    "zone": ZONE_LABEL,
    "region": "topology.kubernetes.io/region",
    "rack": RACK_LABEL,
    "machine_type": MACHINE_TYPE_LABEL,
}
_NAME_FIELDS: Final = ("node", "zone", "region", "rack", "machine_type", "gpu_model")
_NODE_FIELDS: Final = (*_NAME_FIELDS, "gpu_count", "allocatable", "labels", "expressions")
_TASK_FIELDS: Final = ("labels", "namespaces", "templates", "expressions")
_RULE_FIELDS: Final = ("name", "tasks", "require", "forbid")
_COMPARISON: Final = re.compile(r"\s*(>=|<=|!=|==|=|>|<)\s*(\S+)\s*")
_COMPARE: Final[dict[str, Callable[[NDArray[np.int64], int], NDArray[np.bool_]]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of an amount with a bound (milli-cores for `cpu`, whole units for the rest)."""

    sign: str
    bound: int

    def holds(self, amounts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compare each of `amounts`, shape (n,)."""
        return _COMPARE[self.sign](amounts, self.bound)


@dataclass(frozen=True, slots=True)
class TaskCondition:
    """Which pods a rule is about."""

    labels: LabelSelector = field(default_factory=LabelSelector)
    namespaces: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    def holds(self, shape: PodShape) -> bool:
        """Tell whether the rule is about pods of this shape."""
        return (
            (not self.namespaces or _fits(shape.namespace, self.namespaces))
            and (not self.templates or _fits(shape.template, self.templates))
            and self.labels.matches(dict(shape.labels))
        )


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """Which nodes a rule is about.

    `names` are (field, patterns), `amounts` (resource or `gpu_count`, comparison).
    """

    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    amounts: tuple[tuple[str, Comparison], ...] = ()
    requirements: tuple[Requirement, ...] = ()

    def met(self, state: ClusterState, rows: Rows) -> NDArray[np.bool_]:
        """Tell which of `rows` meet every condition, shape (n,)."""
        numbers = row_numbers(state, rows)
        met = np.ones(len(numbers), dtype=np.bool_)
        for kind, patterns in self.names:
            met &= _name_fits(state, kind, patterns, numbers)
        for resource, comparison in self.amounts:
            met &= comparison.holds(_amounts(state, resource, numbers))
        for requirement in self.requirements:
            met &= requirement_met(state, requirement, numbers)
        return met


def _label_fits(
    state: ClusterState, key: str, patterns: Sequence[str], rows: NDArray[np.intp]
) -> NDArray[np.bool_]:
    column = state.labels.get(key)
    if column is None:
        return np.zeros(len(rows), dtype=np.bool_)
    table = np.array([*(_fits(label, patterns) for label in column.values), False], dtype=np.bool_)
    return table[column.value_ids[rows]]


def _name_fits(
    state: ClusterState, kind: str, patterns: Sequence[str], rows: NDArray[np.intp]
) -> NDArray[np.bool_]:
    if kind == "node":
        nodes: list[Node | None] = [state.nodes[row] for row in rows]
        return np.array([node is not None and _fits(node.name, patterns) for node in nodes], dtype=np.bool_)
    if kind == "gpu_model":
        table = np.array([*(_fits(model, patterns) for model in state.gpu_models), False], dtype=np.bool_)
        return table[state.gpu_model_ids[rows]] | _label_fits(state, _GPU_LABEL, patterns, rows)
    return _label_fits(state, _LABEL_OF[kind], patterns, rows)


def _amounts(state: ClusterState, resource: str, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    if resource == "gpu_count":
        return (state.gpu_free_milli[rows] >= 0).sum(axis=1).astype(np.int64)
    column = state.columns.get(resource)
    return np.zeros(len(rows), dtype=np.int64) if column is None else state.allocatable[rows, column]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `tasks` may only run on, or (`is_forbidden`) never on, nodes that meet `nodes`."""

    name: str
    tasks: TaskCondition
    nodes: NodeCondition
    is_forbidden: bool

    def refused(self, state: ClusterState, rows: Rows) -> NDArray[np.bool_]:
        """Tell which of `rows` the rule refuses to the pods it is about, shape (n,)."""
        met = self.nodes.met(state, rows)
        return met if self.is_forbidden else ~met


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Rules in the order of the document, and what a node keeps of its score where it would spread GPUs.

    `spread_factor` is applied by the decoder: 1 leaves scores as they are.
    """

    rules: tuple[Rule, ...] = ()
    spread_factor: float = 1.0

    def rules_for(self, shape: PodShape) -> tuple[Rule, ...]:
        """Return the rules that are about pods of this shape."""
        return tuple(rule for rule in self.rules if rule.tasks.holds(shape))

    @classmethod
    def parse(cls, document: object) -> RuleTable:
        """Read a document as described at the top of this module.

        Raises:
            InvalidInput: the message names the rule, the field, the value and the mend.
            UnknownName: a field that does not exist; the message offers the nearest.
        """
        table = _mapping(document, "rule table", "a mapping with `version: 1` and `rules`")
        _known(table, ("version", "rules", "root_complexes"), "field of the rule table")
        if table.get("version") != 1:
            raise InvalidInput(
                f"rule table: version is {table.get('version')!r}; this reader knows version 1"
            )
        rules = [
            _rule(entry, number)
            for number, entry in enumerate(_list(table.get("rules", []), "rule table: rules"))
        ]
        names = [rule.name for rule in rules]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(
                    f"rule {name!r} occurs {names.count(name)} times; give each rule a name of its own"
                )
        return cls(tuple(rules), _spread_factor(table.get("root_complexes")))


NO_RULES: Final = RuleTable()


def _spread_factor(document: object) -> float:
    if document is None:
        return NO_RULES.spread_factor
    where = "rule table: root_complexes"
    fields = _mapping(document, where, f"a mapping with `spread`, a share such as {SPREAD_SCORE_FACTOR}")
    _known(fields, ("spread",), f"field of {where}:")
    factor = fields.get("spread", SPREAD_SCORE_FACTOR)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0.0 < factor <= 1.0:
        raise InvalidInput(f"{where}.spread is {factor!r}; give a share above 0 and at most 1")
    return float(factor)


def _mapping(document: object, where: str, mend: str) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{where} is {document!r}; write {mend}")
    entries = cast("Mapping[object, object]", document)
    for key in entries:
        if not isinstance(key, str):
            raise InvalidInput(f"{where}: the key {key!r} is not text; quote it")
    return cast("Mapping[str, object]", document)


def _list(document: object, where: str) -> Sequence[object]:
    if not isinstance(document, list | tuple):
        raise InvalidInput(f"{where} is {document!r}; write a list")
    return cast("Sequence[object]", document)


def _known(fields: Mapping[str, object], known: Sequence[str], kind: str) -> None:
    for given in fields:
        if given not in known:
            raise UnknownName(kind, given, known)


def _rule(document: object, number: int) -> Rule:
    entry = _mapping(
        document, f"rule {number + 1}", "a mapping with `name`, `tasks` and `require` or `forbid`"
    )
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"rule {number + 1}: name is {name!r}; give the rule a name")
    where = f"rule {name!r}"
    _known(entry, _RULE_FIELDS, f"field of {where}:")
    given = [kind for kind in ("require", "forbid") if kind in entry]
    if len(given) != 1:
        raise InvalidInput(
            f"{where} has {' and '.join(given) or 'neither require nor forbid'}; write exactly one"
        )
    kind = given[0]
    nodes = _node_condition(entry[kind], f"{where}: {kind}")
    return Rule(name, _task_condition(entry.get("tasks", {}), f"{where}: tasks"), nodes, kind == "forbid")


def _task_condition(document: object, where: str) -> TaskCondition:
    fields = _mapping(document, where, "a mapping of conditions on pods")
    _known(fields, _TASK_FIELDS, f"condition in {where}:")
    requirements = _requirements(fields, where)
    return TaskCondition(
        labels=LabelSelector(requirements),
        namespaces=_names(fields.get("namespaces", []), f"{where}.namespaces"),
        templates=_names(fields.get("templates", []), f"{where}.templates"),
    )


def _node_condition(document: object, where: str) -> NodeCondition:
    fields = _mapping(document, where, "a mapping of conditions on nodes")
    _known(fields, _NODE_FIELDS, f"condition in {where}:")
    if not fields:
        raise InvalidInput(f"{where} is empty; name at least one of {', '.join(_NODE_FIELDS)}")
    names = [(kind, _names(fields[kind], f"{where}.{kind}")) for kind in _NAME_FIELDS if kind in fields]
    for kind, patterns in names:
        if not patterns:
            raise InvalidInput(f"{where}.{kind} is empty; name at least one, or leave it out")
    amounts: list[tuple[str, Comparison]] = []
    if "gpu_count" in fields:
        amounts.append(("gpu_count", _comparison("gpu_count", fields["gpu_count"], f"{where}.gpu_count")))
    allocatable = _mapping(fields.get("allocatable", {}), f"{where}.allocatable", "comparisons by resource")
    for resource, written in allocatable.items():
        amounts.append((resource, _comparison(resource, written, f"{where}.allocatable.{resource}")))
    return NodeCondition(tuple(names), tuple(amounts), _requirements(fields, where))


def _names(document: object, where: str) -> tuple[str, ...]:
    entries = [document] if isinstance(document, str) else _list(document, where)
    for entry in entries:
        if not isinstance(entry, str) or not entry:
            raise InvalidInput(
                f"{where} has {entry!r}; write a name, in quotes if it looks like something else"
            )
    return tuple(str(entry) for entry in entries)


def _comparison(resource: str, document: object, where: str) -> Comparison:
    written = document if isinstance(document, str) else repr(document)
    parts = _COMPARISON.fullmatch(written)
    if parts is None:
        raise InvalidInput(
            f"{where} is {document!r}; write a comparison such as '>= 4', with >=, <=, >, <, = or !="
        )
    try:
        bound = milli_value(parts[2]) if resource == CPU else value(parts[2])
    except InvalidQuantity as error:
        raise InvalidInput(f"{where}: {error}") from error
    return Comparison(parts[1], bound)


def _requirements(fields: Mapping[str, object], where: str) -> tuple[Requirement, ...]:
    found: list[Requirement] = []
    for key, label in _mapping(fields.get("labels", {}), f"{where}.labels", "label values by key").items():
        if not isinstance(label, str):
            raise InvalidInput(f"{where}.labels.{key} is {label!r}; label values are text, quote it")
        found.append(Requirement(key, Operator.IN, (label,)))
    for number, document in enumerate(_list(fields.get("expressions", []), f"{where}.expressions")):
        found.append(_expression(document, f"{where}.expressions[{number}]"))
    return tuple(found)


def _expression(document: object, where: str) -> Requirement:
    entry = _mapping(document, where, "a mapping with key, operator and values")
    _known(entry, ("key", "operator", "values"), f"field of {where}:")
    key, written = entry.get("key"), entry.get("operator")
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"{where}.key is {key!r}; name a label")
    if not isinstance(written, str) or written not in list(Operator):
        raise InvalidInput(f"{where}.operator is {written!r}; write one of {', '.join(Operator)}")
    try:
        return Requirement(key, Operator(written), _names(entry.get("values", []), f"{where}.values"))
    except InvalidObject as error:
        raise InvalidInput(f"{where}: {error}") from error
