"""A schema has an id, and says in words how another one differs from it."""

import msgspec
import pytest

from stowplan.core.encoder import (
    SCHEMA,
    Column,
    FeatureGroup,
    Schema,
    Table,
    difference,
    schema_from_bytes,
    schema_to_bytes,
)
from stowplan.errors import InvalidFile, InvalidInput


def column(name: str, *groups: FeatureGroup, unit: str = "1", high: float = 1.0) -> Column:
    return Column(name=name, unit=unit, meaning="m", source="s", low=0.0, high=high, groups=groups)


def schema(*task: Column, position: tuple[str, ...] = ("order",)) -> Schema:
    return Schema(Table("task", task), Table("node", ()), Table("cluster", ()), position)


A, B, C = column("a"), column("b"), column("c", FeatureGroup.RTT)


def test_masks_stand_behind_the_scores() -> None:
    table = Table("task", (A, C, column("d", FeatureGroup.MBPI, FeatureGroup.HISTORY), B))
    assert table.encoded_names == ("a", "c", "d", "b", "c.known", "d.known")
    assert table.width == 6
    assert table.places["b"] == 3
    assert [feature.name for feature in table.features] == ["task.a", "task.c", "task.d", "task.b"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (schema(A, B), ["task.c [1] 0 … 1, rtt of there is unknown here"]),
        (schema(A, B, C, column("d")), ["task.d [1] 0 … 1 of here is unknown there"]),
        (schema(B, A, C), ["task column 0 is a there and b here"]),
        (schema(A, column("b", unit="s"), C), ["task.b [1] 0 … 1 there is b [s] 0 … 1 here"]),
        (schema(A, column("b", high=2.0), C), ["task.b [1] 0 … 1 there is b [1] 0 … 2 here"]),
        (schema(A, B, column("c")), ["task.c [1] 0 … 1, rtt there is c [1] 0 … 1 here"]),
        (schema(A, B, C, position=("depth",)), ["position is order there and depth here"]),
        (schema(A, column("d"), C), ["task.b", "unknown here", "task.d", "unknown there"]),
    ],
)
def test_a_difference_is_named(other: Schema, said: list[str]) -> None:
    trained = schema(A, B, C)
    assert trained.id != other.id
    for part in said:
        assert part in difference(trained, other)


def test_what_a_column_means_to_people_is_not_part_of_the_id() -> None:
    said_otherwise = msgspec.structs.replace(A, meaning="better said", source="the same")
    assert schema(said_otherwise).id == schema(A).id
    assert not difference(schema(said_otherwise), schema(A))


def test_a_schema_is_kept_as_text() -> None:
    again = schema_from_bytes(schema_to_bytes(SCHEMA))
    assert again == SCHEMA
    assert again.id == SCHEMA.id
    assert len(SCHEMA.id) == 16
    with pytest.raises(InvalidFile, match="schema of a model cannot be read"):
        schema_from_bytes(schema_to_bytes(SCHEMA)[:-20])


def test_names_are_unique() -> None:
    with pytest.raises(InvalidInput, match="table 'task' has a twice"):
        Table("task", (A, B, A))
    for table in SCHEMA.tables:
        assert len(set(table.encoded_names)) == table.width


def test_bounds_are_what_features_may_have() -> None:
    assert len(SCHEMA.features) == sum(len(table.columns) for table in SCHEMA.tables)  # Feature checks them
