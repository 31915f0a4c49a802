"""`stowplan train` and `evaluate`: what they refuse, and a whole tiny training from the command line."""

from pathlib import Path

import pytest
import yaml

from stowplan.cli.process import run
from stowplan.learn.checkpoints import BEST, LAST
from stowplan.learn.settings import Settings, settings_to_bytes


@pytest.fixture
def config(settings: Settings, tmp_path: Path) -> Path:
    path = tmp_path / "training.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(settings_to_bytes(settings))))  # JSON is YAML
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must refuse, and return the complaint."""
    assert run([str(one) for one in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


def test_a_missing_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = refused(capsys, "train", "--config", tmp_path / "none.yaml", "--out", tmp_path / "out")
    assert "none.yaml: no such file" in words
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text("ppo: {cilp: 0.2}")
    words = refused(capsys, "train", "--config", tmp_path / "t.yaml", "--out", tmp_path / "out")
    assert "unknown field `cilp` - at `$.ppo`; see docs/TRAINING.md" in words


def test_recordings_that_are_not_there_are_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace("recordings: null", "recordings: nowhere"))
    words = refused(capsys, "train", "--config", config, "--out", tmp_path / "out")
    assert "nowhere: has no folder of a training family" in words


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_damaged_checkpoint_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = tmp_path / "out" / LAST
    path.parent.mkdir()
    path.write_bytes(b"stowplan training checkpoint 1\n" + b"0" * 64 + b"\nPK")
    options = ("--config", config, "--out", path.parent) if command == "train" else ("--checkpoint", path)
    assert "truncated or altered" in refused(capsys, command, *options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--split", "tset"), "unknown split 'tset'; did you mean 'test'?"),
        (("--scenarios", "0"), "--scenarios is 0"),
        ((), "cannot be read"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, "evaluate", "--checkpoint", tmp_path / "none", *options)


@pytest.mark.slow
def test_train_then_evaluate(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["train", "--config", str(config), "--out", str(out)]) == 0
    assert f"Trained: {out / BEST}" in capsys.readouterr().out
    assert list((out / "tensorboard").glob("events*"))
    code = run(
        [
            "evaluate",
            "--checkpoint",
            str(out / BEST),
            "--scenarios",
            "2",
            "--policy",
            "random",
            "--policy",
            "srpt",
        ]
    )
    said = capsys.readouterr().out
    assert code == 0
    assert "against" in said
    assert "random" in said
    assert "refuse: 0." in said
