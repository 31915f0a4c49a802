"""Policies of plain options: a folder becomes a release, also inside look-ahead and in another process."""

import pickle
from pathlib import Path

import pytest

from stowplan.core.lookahead import LookAhead
from stowplan.core.policy.learned import LearnedPolicy, Release
from stowplan.errors import InvalidFile, InvalidInput, UnknownName
from stowplan.registry import PolicyMaker, make_policy, resolved_options, write_release
from tests.learned_cases import random_release


@pytest.fixture(scope="module")
def release() -> Release:
    return random_release()


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> str:
    write_release(release, tmp_path / "model")
    return str(tmp_path / "model")


def test_a_folder_becomes_a_release(release: Release, folder: str) -> None:
    policy = make_policy("learned", model=folder, digest=release.digest)
    assert isinstance(policy, LearnedPolicy)
    assert policy.release == release
    with pytest.raises(InvalidFile, match="expected is"):
        make_policy("learned", model=folder, digest="ab" * 32)


def test_it_does_inside_look_ahead_too(release: Release, folder: str) -> None:
    options = {"policy": "learned", "options": {"model": folder}, "alternatives": ["srpt"]}
    resolved = resolved_options("look-ahead", options)
    assert resolved["options"] == {"model": release}
    assert options["options"] == {"model": folder}
    assert isinstance(make_policy("look-ahead", **options), LookAhead)


def test_other_policies_are_made_as_they_are() -> None:
    assert make_policy("tetris", remaining_weight=0.0).name == "tetris"
    assert make_policy("look-ahead").name == "look-ahead"
    with pytest.raises(UnknownName, match="unknown policy 'learnt'; did you mean 'learned'"):
        make_policy("learnt")


@pytest.mark.parametrize("options", [{"model": 3}, {"model": "x", "digest": 3}])
def test_what_is_no_path_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="give the path of a release"):
        make_policy("learned", **options)


def test_a_maker_goes_to_another_process(folder: str) -> None:
    maker = pickle.loads(pickle.dumps(PolicyMaker({"learned": {"model": folder}})))  # noqa: S301
    assert maker("learned").name == "learned"
    assert maker("srpt").name == "srpt"
