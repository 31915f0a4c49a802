"""What an episode refuses, what it reports, and rules that users compile."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.core.physics.handles import Handle
from stowplan.errors import InvalidInput, StateConflict
from stowplan.simulate.spark import LEAVE, Answer, CompiledRule, SparkEpisode, SparkSetting, fair
from stowplan.simulate.spark.loop import player
from stowplan.simulate.spark.pools import offered
from stowplan.simulate.spark.rounds import first_schedulable, source_job
from tests.spark_cases import profiles_of, query, sequence, stage

TWO_STAGES = query([stage([2000.0], [1000.0]), stage([1000.0])], [(0, 1)])


def start(executors: int = 2) -> SparkEpisode:
    setting = SparkSetting(executors=executors, jobs=2)
    jobs = sequence(0.0, 60.0, kinds=[0, 0])
    return SparkEpisode(profiles_of(TWO_STAGES), setting, jobs, np.random.default_rng(0))


@pytest.mark.parametrize(
    "answer", [Answer(0, 3), Answer(0, 0), Answer(1, 1), Answer(2, 1), Answer(99, 1), Answer(-2, 0)]
)
def test_an_answer_that_is_not_allowed_changes_nothing(answer: Answer) -> None:
    episode = start()
    with pytest.raises(
        InvalidInput, match=r"Answer\(.*\) is not allowed at 0\.0 s; choose a schedulable stage"
    ):
        episode.answer(answer)
    assert episode.play(fair()).runs.tobytes() == start().play(fair()).runs.tobytes()


def test_whoever_leaves_everything_is_told() -> None:
    with pytest.raises(
        StateConflict, match=r"2 jobs are not done at 60\.0 s; the policy must leave fewer idle"
    ):
        start().play(lambda _: LEAVE)


def test_an_episode_that_is_over_takes_no_answers() -> None:
    episode = start()
    with pytest.raises(
        StateConflict, match=r"2 jobs are not done at 0\.0 s; answer the decisions that are due"
    ):
        episode.result()
    result = episode.play(fair())
    assert episode.is_over
    with pytest.raises(StateConflict, match="the episode is over"):
        episode.answer(LEAVE)
    with pytest.raises(StateConflict, match="the episode is over"):
        episode.decision()
    assert episode.result().completion_s.tolist() == result.completion_s.tolist()


def test_what_a_result_tells() -> None:
    result = start(executors=1).play(fair())
    # 2 s on the way, 3 s fresh, 1 s, and 2 s for the next stage, on which it is cold.
    assert result.completion_s.tolist() == [8.0, 8.0]
    assert (result.mean_completion_s, result.makespan_s, result.moves) == (8.0, 68.0, 2)
    assert result.utilisation == pytest.approx(12.0 / 68.0)
    assert result.kinds.tolist() == [0, 0]


def test_a_job_of_no_known_kind_is_refused() -> None:
    setting = SparkSetting(executors=1, jobs=1)
    with pytest.raises(InvalidInput, match="kinds of jobs must lie in 0 … 0"):
        SparkEpisode(profiles_of(TWO_STAGES), setting, sequence(0.0, kinds=[1]), np.random.default_rng(0))


def test_a_copy_may_have_another_future() -> None:
    varied = query([stage([float(n) for n in range(1, 2000)], [float(n) for n in range(1, 2000)])])
    setting = SparkSetting(executors=3, jobs=1)
    episode = SparkEpisode(profiles_of(varied), setting, sequence(0.0), np.random.default_rng(0))
    other = episode.copy(np.random.default_rng(1)).play(fair())
    assert other.mean_completion_s != episode.copy().play(fair()).mean_completion_s
    assert episode.copy().play(fair()).runs.tobytes() == episode.play(fair()).runs.tobytes()


@inner
def _oldest_first(handle: Handle, parameters: NDArray[np.float64]) -> tuple[int, int]:
    if parameters[0] > 0.0:
        return -7, 0
    return first_schedulable(handle, source_job(handle)), offered(handle)


_play = player(_oldest_first)


@compiled
def play_oldest_first(handle: Handle, rng: np.random.Generator, parameters: NDArray[np.float64]) -> int:
    return _play(handle, rng, parameters)


@pytest.mark.slow
def test_a_rule_of_ones_own() -> None:
    result = start().play(CompiledRule("oldest first", play_oldest_first, (0.0,)))
    assert (result.completion_s > 0.0).all()
    with pytest.raises(InvalidInput, match=r"rule wrong gave an answer that is not allowed at 0\.0 s"):
        start().play(CompiledRule("wrong", play_oldest_first, (1.0,)))
