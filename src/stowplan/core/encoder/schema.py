"""What the columns of an encoding are: name, unit, meaning, source, range. A model is bound to them by an id.

A model that was trained on other columns than it is served must be refused, and the refusal must say which
column it is about: numbers in the wrong place look like any others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property

import msgspec

from stowplan.core.semantics import Feature
from stowplan.errors import InvalidFile, InvalidInput

__all__ = ["Column", "FeatureGroup", "Schema", "Table", "difference", "schema_from_bytes", "schema_to_bytes"]


class FeatureGroup(StrEnum):
    """Columns that come and go together: each can be switched off, and then reads as unknown."""

    MBPI = "mbpi"
    """How loaded a node's memory bandwidth is, as measured."""
    STORAGE = "storage"
    """How a node's disks answer, as measured."""
    RTT = "rtt"
    """How far a node is from its peers, as measured."""
    PCIE = "pcie"
    """How well a node's PCIe links are, as measured."""
    MEMORY = "memory"
    """What a node's memory holds, as measured."""
    USAGE = "usage"
    """How busy a node's cores and network interfaces are, as measured."""
    HISTORY = "history"
    """What is known of a task from earlier runs: how long it takes and what it needs."""
    TOPOLOGY = "topology"
    """Where a task stands in its workflow."""


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One physical number of an encoding.

    Attributes:
        name: within its table.
        unit: "1" for shares, counts and ratios.
        meaning: for people.
        source: what it is computed from.
        low, high: where it is clipped; both count.
        is_log: whether the score is that of its logarithm.
        groups: what it is switched off with, each of them; none: it is always there.
        can_miss: whether it may be unknown though its groups are on. Such a column, and one of a group, has a
            column beside it that says whether it is known.
    """

    name: str
    unit: str
    meaning: str
    source: str
    low: float
    high: float
    is_log: bool = False
    groups: tuple[FeatureGroup, ...] = ()
    can_miss: bool = False

    @property
    def has_mask(self) -> bool:
        """Whether a column beside it says if it is known."""
        return self.can_miss or bool(self.groups)

    def in_words(self) -> str:
        """Return what a model depends on, as one line."""
        scale = "log " if self.is_log else ""
        mask = f", {'+'.join(self.groups) or 'masked'}" if self.has_mask else ""
        return f"{self.name} [{self.unit}] {scale}{self.low:g} … {self.high:g}{mask}"


class Table(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Columns of one kind of row: tasks, nodes, or the cluster.

    An encoded row holds the scores of all columns and then, for those that may be unknown, 1 or 0.
    """

    name: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        """Refuse two columns of one name.

        Raises:
            InvalidInput: a name occurs twice.
        """
        names = [column.name for column in self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidInput(f"table {self.name!r} has {', '.join(twice)} twice; names must be unique")

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of each column by its name."""
        return {column.name: place for place, column in enumerate(self.columns)}

    @cached_property
    def masked(self) -> tuple[int, ...]:
        """Places of the columns that have a mask."""
        return tuple(place for place, column in enumerate(self.columns) if column.has_mask)

    @cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the numbers of an encoded row: scores, then masks."""
        names = [column.name for column in self.columns]
        return (*names, *(f"{names[place]}.known" for place in self.masked))

    @property
    def width(self) -> int:
        """How many numbers an encoded row has."""
        return len(self.columns) + len(self.masked)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The columns as features of statistics, named `table.column`."""
        return tuple(Feature(f"{self.name}.{c.name}", c.low, c.high, c.is_log) for c in self.columns)


class Schema(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """All columns of an encoding, in order. `position` names the columns of `Encoded.position`."""

    task: Table
    node: Table
    cluster: Table
    position: tuple[str, ...]

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        """The tables."""
        return self.task, self.node, self.cluster

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Features of all tables, in order: the columns of a model's statistics."""
        return tuple(feature for table in self.tables for feature in table.features)

    def lines(self) -> list[str]:
        """Return what a model depends on, a line for each column."""
        lines = [f"{table.name}.{column.in_words()}" for table in self.tables for column in table.columns]
        return [*lines, *(f"position.{name}" for name in self.position)]

    @cached_property
    def id(self) -> str:
        """Digest of names, units, ranges and order; equal ids mean interchangeable encodings."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()[:16]


def difference(trained: Schema, served: Schema) -> str:
    """Return how two schemas differ, as text for people; empty when a model may go from one to the other."""
    if trained.id == served.id:
        return ""
    found: list[str] = []
    for before, after in zip(trained.tables, served.tables, strict=True):
        found += _differences(before, after)
    if trained.position != served.position:
        found.append(f"position is {', '.join(trained.position)} there and {', '.join(served.position)} here")
    return "; ".join(found)


def _differences(before: Table, after: Table) -> list[str]:
    """Return how columns of one table differ; of those that only moved the first."""
    found: list[str] = []
    for column in before.columns:
        if column.name not in after.places:
            found.append(f"{after.name}.{column.in_words()} of there is unknown here")
            continue
        here = after.columns[after.places[column.name]].in_words()
        if column.in_words() != here:
            found.append(f"{after.name}.{column.in_words()} there is {here} here")
    new = [column for column in after.columns if column.name not in before.places]
    found += [f"{after.name}.{column.in_words()} of here is unknown there" for column in new]
    return found or _moved(after.name, before.columns, after.columns)


def _moved(table: str, before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    for place, (there, here) in enumerate(zip(before, after, strict=True)):
        if there.name != here.name:
            return [f"{table} column {place} is {there.name} there and {here.name} here"]
    return []


def schema_to_bytes(schema: Schema) -> bytes:
    """Return the schema as JSON, to be kept with a model."""
    return msgspec.json.encode(schema)


def schema_from_bytes(content: bytes) -> Schema:
    """Return a schema that was kept with a model.

    Raises:
        InvalidFile: it is truncated or altered.
    """
    try:
        return msgspec.json.decode(content, type=Schema)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidFile(
            f"the schema of a model cannot be read: {error}; take the one of its release"
        ) from None
