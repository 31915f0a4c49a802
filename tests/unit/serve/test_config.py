"""The configuration: a file, the environment over it, the command line over both; faults are named."""

from pathlib import Path

import pytest

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.serve.config import load_config
from stowplan.serve.scheduler.interface import Mode


def written(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_anything_every_field_has_its_default() -> None:
    config = load_config()
    assert config.scheduler.mode is Mode.EXTENDER  # the safe one
    assert config.lease.enable
    assert config.history.url == ""


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(
        tmp_path, "scheduler: {mode: shadow, name: from-file, policy: srpt}\nlog: {level: warning}\n"
    )
    monkeypatch.setenv("STOWPLAN_SCHEDULER__MODE", "gate")
    monkeypatch.setenv("STOWPLAN_SCHEDULER__NAME", "from-environment")
    config = load_config(file, {"scheduler.mode": "binder", "scheduler.policy": None})
    assert config.scheduler.mode is Mode.BINDER
    assert config.scheduler.name == "from-environment"
    assert config.scheduler.policy == "srpt"
    assert config.log.level == "warning"


def test_all_faults_are_named_with_path_value_and_mend(tmp_path: Path) -> None:
    file = written(tmp_path, "scheduler: {mode: bindr, nme: x}\nhttp: {port: 99999}\nshceduler: {}\n")
    with pytest.raises(InvalidInput) as caught:
        load_config(file)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        str(file),
        "scheduler.mode is 'bindr'",
        "'extender', 'binder', 'gate' or 'shadow'",
        "scheduler.nme is not known",
        "http.port is 99999",
        "shceduler is not known",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{percent_of_nodes: 101}", "preemption.percent_of_nodes is 101"),
        ("{minimum_nodes: 0}", "preemption.minimum_nodes is 0"),
        ("{within_s: 0}", "preemption.within_s is 0"),
        ("{examines_all: true}", "preemption.examines_all is not known"),
    ],
)
def test_preemption_has_limits_that_make_sense(tmp_path: Path, section: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        load_config(written(tmp_path, f"preemption: {section}\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scheduler: [", "is no YAML"),
        ("- a\n- b\n", "write a mapping"),
        (None, "No such file"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    file = written(tmp_path, text) if text is not None else tmp_path / "missing.yaml"
    with pytest.raises(InvalidFile, match=words):
        load_config(file)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "# nothing yet\n")) == load_config()


def test_an_unusable_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_SCHEDULER", "{not json")
    with pytest.raises(InvalidInput, match="environment"):
        load_config()
