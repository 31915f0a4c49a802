"""Learning is repeatable, keeps to its seeds and gets somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stowplan.errors import InvalidInput
from stowplan.simulate.spark import LearnedShares, SparkProfiles
from stowplan.simulate.spark.tuning import Generation, Training, learn
from tests.spark_cases import profiles_of, query, stage

SMALL_TRAINING = Training(
    seed=3, generations=2, population=4, streaming=1, overloaded=1, first_seed=50, last_seed=60
)


QUERIES = (
    query([stage([9000.0] * 30), stage([2000.0] * 4)], [(0, 1)]),
    query([stage([500.0], [400.0] * 5)]),
)


@pytest.mark.slow
def test_the_same_training_learns_the_same() -> None:
    made: list[list[Generation]] = [list(learn(profiles_of(*QUERIES), SMALL_TRAINING)) for _ in range(2)]
    assert made[0] == made[1]
    assert [one.learned.generations for one in made[0]] == [1, 2]
    assert made[0][0].learned.parameters != made[0][1].learned.parameters
    last = made[0][-1].learned
    assert (last.seed, last.first_seed, last.last_seed) == (3, 50, 60)
    assert 0.0 < made[0][-1].best < 2.0


@pytest.mark.slow
def test_the_tool_keeps_what_was_learned(repository: Path, tmp_path: Path) -> None:
    measured, out = tmp_path / "stages.json", tmp_path / "shares.json"
    measured.write_bytes(msgspec.json.encode({"1g": dict(zip("12", QUERIES, strict=True))}))
    tool = repository / "tools" / "learn_spark_shares.py"
    command = [sys.executable, tool, measured, out, "--seed", "3", "--generations", "2"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(told.splitlines()) == 2
    *_, last = learn(SparkProfiles.load(measured), Training(seed=3, generations=2))
    assert msgspec.json.decode(out.read_bytes(), type=LearnedShares) == last.learned


@pytest.mark.parametrize("change", [{"generations": 0}, {"streaming": 0}, {"first_seed": 9000}])
def test_a_training_that_learns_nothing_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="learns nothing"):
        Training(**{"seed": 1, "generations": 1, **change})
