"""What is made of measured stages: which samples stand for which wave and number of executors."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.errors import InvalidFile
from stowplan.simulate.spark.profiles import FIRST, FRESH, LEVELS, REST, SparkProfiles
from stowplan.simulate.workloads.tpch import Stage
from tests.spark_cases import profiles_of, query, stage


def samples(profiles: SparkProfiles, wave: int, level: int, stage: int = 0) -> list[float]:
    known = profiles.stages[stage]
    span = wave * len(LEVELS) + LEVELS.index(level)
    return profiles.samples_ms[known["start"][span] :][: known["count"][span]].tolist()


def test_a_first_wave_is_what_is_left_without_the_fresh_tasks() -> None:
    profiles = profiles_of(query([Stage({"5": [9.0, 4.0, 9.0, 7.0]}, {"5": [3.0]}, {"5": [9.0, 7.0]})]))
    assert samples(profiles, FRESH, 5) == [9.0, 7.0]
    assert samples(profiles, FIRST, 5) == [4.0, 9.0]
    assert samples(profiles, REST, 5) == [3.0]


def test_levels_stand_in_for_one_another() -> None:
    measured = Stage(
        {"20": [6.0], "5": [4.0, 5.0], "10": [8.0], "7": [1.0]},
        {"20": [], "5": [2.0], "10": [3.0]},
        {"20": [6.0], "5": [4.0], "10": [8.0], "7": []},
    )
    profiles = profiles_of(query([measured]))
    # Nothing is left of the first wave on 10 and on 20, so it is that of the next lower level, which is 7.
    assert [samples(profiles, FIRST, level) for level in (5, 10, 20)] == [[5.0], [1.0], [1.0]]
    # Not measured beyond 20: the highest level stands there.
    assert [samples(profiles, FRESH, level) for level in (10, 20, 40, 100)] == [[8.0], [6.0], [6.0], [6.0]]
    # The level that is named first tells how many tasks there are.
    assert profiles.stages["tasks"].tolist() == [1]
    every = [4.0, 5.0, 2.0, 1.0, 8.0, 1.0, 3.0, 6.0, 1.0]
    assert profiles.stages["mean_ms"][0] == pytest.approx(np.mean(every))


def test_means_and_paths() -> None:
    #  0 → 2 → 3 and 1 → 3
    measured = [stage([10.0], [20.0]), stage([100.0]), stage([5.0]), stage([1.0])]
    profiles = profiles_of(query(measured, [(0, 2), (2, 3), (1, 3)]), query([stage([2.0])]))
    assert profiles.stages["mean_ms"].tolist() == [15.0, 100.0, 5.0, 1.0, 2.0]
    assert profiles.stages["tail_ms"].tolist() == [21.0, 101.0, 6.0, 1.0, 2.0]
    assert profiles.stages["span_mean_ms"][0, REST * len(LEVELS)] == 20.0
    assert np.isnan(profiles.stages["span_mean_ms"][1, REST * len(LEVELS)])
    assert profiles.first_stage.tolist() == [0, 4, 5]
    last = profiles.stages[3]
    assert profiles.neighbours[last["first_parent"] :][: last["parents"]].tolist() == [1, 2]
    assert (last["children"], profiles.kinds) == (0, 2)


def test_unusable_stages_are_refused() -> None:
    with pytest.raises(InvalidFile, match="x: has no queries"):
        SparkProfiles.of({}, "x")
    with pytest.raises(InvalidFile, match="x: has no queries, or other queries at other scales"):
        SparkProfiles.of({"1g": {"1": query([stage([1.0])])}, "2g": {}}, "x")
    with pytest.raises(InvalidFile, match="tpch-1g-q1 has stages that wait for one another"):
        profiles_of(query([stage([1.0]), stage([1.0]), stage([1.0])], [(0, 1), (1, 2), (2, 1)]))
    with pytest.raises(InvalidFile, match="tpch-1g-q1 stage 0: has no measured task"):
        profiles_of(query([Stage({}, {}, {})]))
    with pytest.raises(InvalidFile, match="stage 0: has no task of a first wave on 5 executors"):
        profiles_of(query([Stage({"5": []}, {"5": [1.0]}, {"5": []})]))
    with pytest.raises(InvalidFile, match=r"stage 0: has a task of 0\.0 ms"):
        profiles_of(query([stage([0.0])]))
