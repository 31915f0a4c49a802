"""The board of readings: what is known, from when, and which rows changed."""

import math

import numpy as np
import pytest

from stowplan.core.semantics import (
    CATALOGUE,
    NODE_QUANTITIES,
    NodeReadings,
    Source,
    Value,
    measured,
    missing,
)
from stowplan.errors import InvalidInput, UnknownName

UTILISATION = "storage_utilisation"
AWAIT = "storage_await_s"
RTT = "rtt_tail_s"


def value(name: str, number: float, measured_s: float) -> Value:
    return measured(name, number, source=Source.SIMULATED, measured_s=measured_s)


def put(board: NodeReadings, row: int, *values: Value) -> None:
    board.put(row, {each.quantity: each for each in values})


def test_columns_are_of_the_catalogue_and_nothing_is_known_at_first() -> None:
    board = NodeReadings(3)
    assert set(NODE_QUANTITIES) <= set(CATALOGUE)
    assert board.values.shape == (3, len(NODE_QUANTITIES)) == board.age_s.shape
    assert np.isnan(board.values).all()
    assert np.isnan(board.age_s).all()
    assert board.rows_changed_since(0).tolist() == []
    assert len(board) == 3


def test_a_value_is_known_by_row_and_column_with_its_age() -> None:
    board = NodeReadings(2)
    board.advance(12.0)
    put(board, 1, value(UTILISATION, 0.5, 10.0), value(AWAIT, 0.02, 12.0))
    assert board.column(UTILISATION).tolist()[1] == 0.5
    assert math.isnan(board.column(UTILISATION)[0])
    assert board.age_s[1, board.quantities.index(UTILISATION)] == 2.0
    assert board.age_s[1, board.quantities.index(AWAIT)] == 0.0
    assert math.isnan(board.age_s[1, board.quantities.index(RTT)])


def test_what_is_too_old_is_unknown_and_its_row_changed() -> None:
    board = NodeReadings(2)
    put(board, 0, value(UTILISATION, 0.5, 0.0), value(RTT, 0.001, 0.0))
    version = board.version
    board.advance(15.0)
    assert board.column(UTILISATION)[0] == 0.5
    assert board.rows_changed_since(version).tolist() == []
    board.advance(15.5)
    assert math.isnan(board.column(UTILISATION)[0])
    assert board.column(RTT)[0] == 0.001  # the ping mesh may be silent for minutes
    assert board.rows_changed_since(version).tolist() == [0]
    version = board.version
    board.advance(301.0)
    assert math.isnan(board.column(RTT)[0])
    assert board.rows_changed_since(version).tolist() == [0]


def test_missing_and_impossible_values_make_unknown_what_was_known() -> None:
    board = NodeReadings(1)
    put(board, 0, value(UTILISATION, 0.5, 0.0), value(AWAIT, 0.02, 0.0))
    board.advance(5.0)
    put(board, 0, missing(AWAIT, "no request was completed", source=Source.SIMULATED, measured_s=5.0))
    put(board, 0, value(UTILISATION, 7.0, 5.0))
    assert math.isnan(board.column(AWAIT)[0])
    assert math.isnan(board.column(UTILISATION)[0])


def test_a_late_reading_does_not_replace_a_younger_one() -> None:
    board = NodeReadings(1)
    board.advance(10.0)
    put(board, 0, value(UTILISATION, 0.5, 10.0))
    version = board.version
    put(board, 0, value(UTILISATION, 0.1, 5.0))
    assert board.column(UTILISATION)[0] == 0.5
    assert board.version == version


def test_a_reading_that_is_stale_on_arrival_is_not_known() -> None:
    board = NodeReadings(1)
    board.advance(100.0)
    put(board, 0, value(UTILISATION, 0.5, 80.0))
    assert math.isnan(board.column(UTILISATION)[0])


def test_versions_tell_changed_rows_and_not_equal_ones() -> None:
    board = NodeReadings(4)
    put(board, 2, value(UTILISATION, 0.5, 0.0))
    first = board.version
    put(board, 0, value(UTILISATION, 0.25, 0.0))
    put(board, 3, value(UTILISATION, 0.75, 0.0))
    assert board.rows_changed_since(0).tolist() == [0, 2, 3]
    assert board.rows_changed_since(first).tolist() == [0, 3]
    last = board.version
    board.advance(5.0)
    put(board, 0, value(UTILISATION, 0.25, 5.0))  # measured again, the same
    assert board.rows_changed_since(last).tolist() == []
    assert board.age_s[0, board.quantities.index(UTILISATION)] == 0.0
    board.clear(3)
    assert board.rows_changed_since(last).tolist() == [3]
    assert np.isnan(board.values[3]).all()
    last = board.version
    board.clear(1)  # nothing was known of it
    assert board.version == last


def test_it_grows_with_the_state_and_keeps_what_is_known() -> None:
    board = NodeReadings(1)
    put(board, 0, value(UTILISATION, 0.5, 0.0))
    version = board.version
    board.grow(3)
    board.grow(2)
    assert len(board) == 3
    assert board.column(UTILISATION)[0] == 0.5
    assert board.rows_changed_since(version).tolist() == []
    put(board, 2, value(UTILISATION, 0.1, 0.0))
    assert board.rows_changed_since(version).tolist() == [2]


def test_rows_of_another_board_make_an_equal_one() -> None:
    board = NodeReadings(3)
    board.advance(9.0)
    put(board, 0, value(UTILISATION, 0.5, 5.0), value(RTT, 0.001, 1.0))
    put(board, 2, value(AWAIT, 0.5, 9.0))
    other = NodeReadings(3)
    other.advance(9.0)
    rows = np.array([0, 2], dtype=np.intp)
    other.put_rows(rows, board.values[rows], board.measured_s[rows])
    assert other.values.tobytes() == board.values.tobytes()
    assert np.array_equal(other.age_s, board.age_s, equal_nan=True)
    assert other.rows_changed_since(0).tolist() == [0, 2]
    other.advance(21.0)
    assert math.isnan(other.column(UTILISATION)[0])
    assert other.column(AWAIT)[2] == 0.5


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnknownName):
        NodeReadings(1, ["storage_awe"])
    board = NodeReadings(1)
    with pytest.raises(InvalidInput, match="no row 1"):
        board.put(1, {})
    with pytest.raises(InvalidInput, match="no row -1"):
        board.clear(-1)
    with pytest.raises(InvalidInput, match="no 'rtt_s'"):
        board.column("rtt_s")
    with pytest.raises(InvalidInput, match="is no storage_await_s"):
        board.put(0, {AWAIT: value(UTILISATION, 0.5, 0.0)})
    board.advance(5.0)
    with pytest.raises(InvalidInput, match="cannot go back"):
        board.advance(4.0)
    with pytest.raises(InvalidInput, match="shapes"):
        board.put_rows(np.array([0]), np.zeros((2, 2)), np.zeros((2, 2)))


def test_quantities_beyond_its_columns_are_left_out() -> None:
    board = NodeReadings(1, [AWAIT])
    put(board, 0, value(UTILISATION, 0.5, 0.0), value(AWAIT, 0.02, 0.0))
    assert board.values.tolist() == [[0.02]]
