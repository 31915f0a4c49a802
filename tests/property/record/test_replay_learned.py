"""A decision of the learned policy comes out the same again from its record and the release alone."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.record import replay
from stowplan.errors import InvalidInput
from stowplan.registry import make_policy, pinned_options, write_release
from tests.learned_cases import random_release
from tests.record_cases import Drive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "one"
    write_release(random_release(), path)
    return path


def options(policy: str, folder: Path) -> dict[str, object]:
    inner = {"model": str(folder)}
    return pinned_options(policy, inner if policy == "learned" else {"policy": "learned", "options": inner})


@pytest.mark.parametrize("policy", ["learned", "look-ahead"])
@settings(max_examples=8)
@given(seed=st.integers(0, 2**20))
def test_it_comes_out_the_same_to_the_last_bit(policy: str, folder: Path, seed: int) -> None:
    for written in Drive(seed, policy, options(policy, folder), measures=True, make=make_policy).run(10):
        replayed = replay(written.frames, version="1", make=make_policy)
        assert [placed for _, placed in replayed.report.placed] == [p for _, p in written.report.placed]
        assert [wait for _, wait in replayed.report.waiting] == [w for _, w in written.report.waiting]
        assert replayed.report.degraded == written.report.degraded


@pytest.mark.parametrize("policy", ["learned", "look-ahead"])
def test_the_model_decides_in_most_of_these_cycles(policy: str, folder: Path) -> None:
    """Else the test above would be one of the rule that takes over where the model cannot be trusted."""
    drives = [
        Drive(seed, policy, options(policy, folder), measures=True, make=make_policy) for seed in range(6)
    ]
    degraded = [written.report.degraded for drive in drives for written in drive.run(10)]
    assert degraded.count(None) > 0.9 * len(degraded)


def test_another_release_in_its_place_is_told(tmp_path: Path) -> None:
    write_release(random_release(), tmp_path / "one")
    drive = Drive(1, "learned", options("learned", tmp_path / "one"), make=make_policy)
    (written,) = list(drive.run(1))
    (tmp_path / "one").rename(tmp_path / "old")
    write_release(random_release(name="another"), tmp_path / "one")
    with pytest.raises(InvalidInput, match=r"by policy 'learned', which .* does not have so: .* has digest"):
        replay(written.frames, version="1", make=make_policy)
