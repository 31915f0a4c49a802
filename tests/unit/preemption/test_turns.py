"""Pods of many nodes, the first of each, then the second of each."""

import numpy as np

from stowplan.core.preemption.turns import groups, turns


def test_every_node_has_its_turn_as_long_as_it_has_pods() -> None:
    places = np.array([4, 4, 4, 0, 7, 7])
    assert [turn.tolist() for turn in turns(places)] == [[0, 3, 4], [1, 5], [2]]
    assert list(groups(places)) == [(4, 0, 3), (0, 3, 4), (7, 4, 6)]


def test_of_no_pods_there_is_no_turn() -> None:
    nobody = np.zeros(0, dtype=np.intp)
    assert list(turns(nobody)) == []
    assert list(groups(nobody)) == []
