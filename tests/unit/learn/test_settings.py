"""Files of settings: read whole or refused with the key that is wrong."""

from pathlib import Path

import pytest

from stowplan.errors import InvalidFile, InvalidInput, StowplanError
from stowplan.learn.settings import Settings, load_settings, settings_from_bytes, settings_to_bytes


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "training.yaml"
    path.write_text(text)
    return path


def test_an_empty_mapping_is_all_defaults(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, "{}")) == Settings()


def test_recordings_are_beside_the_file(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, "recordings: data/workflows"))
    assert settings.recordings == str(tmp_path / "data/workflows")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed: 1", "unknown field `sed`"),
        ("ppo: {clip: high}", r"Expected `float`, got `str` - at `\$\.ppo\.clip`"),
        ("ppo: {rollouts: 1}", "rollouts is 1"),
        ("outcomes: {rules: [srtp]}", "did you mean 'srpt'"),
        ("network: {width: 30}", "4 heads cannot share a width of 30"),
        ("ranges: {nodes: [9, 3]}", "nodes is 9 to 3"),
        ("reward: {discount: -1}", "discount is -1"),
        ("seed: 1\n---\nseed: 2", "holds 2 documents"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StowplanError, match=message) as raised:
        load_settings(written(tmp_path, text))
    assert isinstance(raised.value, InvalidFile | InvalidInput)
    assert "training.yaml" in str(raised.value)


def test_the_committed_files_can_be_read(repository: Path) -> None:
    files = sorted((repository / "examples" / "training").glob("*.yaml"))
    assert files
    for file in files:
        load_settings(file)


def test_settings_come_back_as_they_were(settings: Settings) -> None:
    assert settings_from_bytes(settings_to_bytes(settings)) == settings
    with pytest.raises(InvalidFile, match="cannot be read"):
        settings_from_bytes(b'{"seed": "one"}')
