"""Whatever order and number of times the pieces of a life come in, the row is the same."""

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.observe.history import Execution, HistoryStore, Record
from stowplan.observe.history.tables import METADATA
from tests.history_cases import decision, execution, snapshot, workflow

FORGETTABLE = [
    field.name
    for field in fields(Execution)
    if field.name not in {"pod_uid", "key", "namespace", "pod", "item", "attempt"}
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryStore]:
    opened = HistoryStore.open(f"sqlite:///{tmp_path_factory.mktemp('history')}/history.db")
    yield opened
    opened.close()


@st.composite
def pieces(draw: st.DrawFn) -> list[Record]:
    """Parts of one life and one workflow, with all of it among them, in any order, some twice."""
    known = draw(st.lists(st.sets(st.sampled_from(FORGETTABLE)), max_size=4))
    parts: list[Record] = []
    parts += [replace(execution(), **dict.fromkeys(unknown)) for unknown in known]
    parts += [replace(execution(), namespace="", pod="", item="", attempt=0)]
    parts += [
        workflow(phase) for phase in draw(st.lists(st.sampled_from(["", "Pending", "Running"]), max_size=3))
    ]
    parts += [execution(), workflow("Succeeded", finished_s=300.0), decision(), snapshot()]
    return draw(st.permutations(parts + draw(st.lists(st.sampled_from(parts), max_size=4))))


@given(pieces(), st.integers(1, 4))
@settings(max_examples=40)
def test_pieces_in_any_order_make_one_row(store: HistoryStore, parts: list[Record], batch: int) -> None:
    with store._database.writing() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(sa.delete(table))
    for start in range(0, len(parts), batch):
        store.write(parts[start : start + batch], 200.0)
    assert store.execution("pod-1") == execution()
    assert store.workflow("lab", "variant-calling-x7") == workflow("Succeeded", finished_s=300.0)
    assert set(store.counts().values()) == {1}
