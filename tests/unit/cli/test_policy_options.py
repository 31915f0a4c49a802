"""Options of policies on the command line: read, handed on, and refused by name."""

from pathlib import Path

import polars as pl
import pytest

from stowplan.cli.policy_options import policy_maker
from stowplan.cli.process import run
from stowplan.errors import InvalidInput, UnknownName
from stowplan.registry import write_release
from tests.learned_cases import random_release


def test_values_are_read_as_yaml_and_handed_to_their_policy() -> None:
    given = ["kube-scheduler.percentage_of_nodes_to_score=40", "tetris.remaining_weight=0.5"]
    maker = policy_maker(given, ["kube-scheduler", "tetris", "srpt"])
    assert maker.options == {
        "kube-scheduler": {"percentage_of_nodes_to_score": 40},
        "tetris": {"remaining_weight": 0.5},
    }
    assert [maker(name).name for name in ("kube-scheduler", "tetris", "srpt")] == [
        "kube-scheduler",
        "tetris",
        "srpt",
    ]


@pytest.mark.parametrize("text", ["model=x", "learned.model", ".model=x", "learned.=x", "learned"])
def test_another_form_is_told(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not of the form POLICY\.NAME=VALUE"):
        policy_maker([text], ["learned"])


def test_options_that_cannot_be_meant_are_told() -> None:
    with pytest.raises(InvalidInput, match="is for policy 'heft', which is not run"):
        policy_maker(["heft.bytes_per_s=1"], ["srpt"])
    with pytest.raises(InvalidInput, match=r"--policy-option heft\.bytes_per_s is given twice"):
        policy_maker(["heft.bytes_per_s=1", "heft.bytes_per_s=2"], ["heft"])
    with pytest.raises(InvalidInput, match="has a value that cannot be read; put it in quotes"):
        policy_maker(["heft.bytes_per_s=[1"], ["heft"])
    with pytest.raises(UnknownName, match="did you mean 'bytes_per_s'"):
        policy_maker(["heft.byte_per_s=1"], ["heft"])("heft")


def test_simulate_runs_a_release_in_several_processes(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_release(random_release(), tmp_path / "model")
    examples = repository / "examples"
    command = [
        "simulate",
        f"--cluster={examples / 'clusters' / 'laptop.yaml'}",
        f"--workload={examples / 'workloads' / 'variant-calling.yaml'}",
        "--policy=srpt",
        "--policy=learned",
        f"--policy-option=learned.model={tmp_path / 'model'}",
        "--seeds=1",
        "--processes=2",
        f"--out={tmp_path / 'out'}",
    ]
    assert run(command) == 0
    summary = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["policy"].to_list() == ["srpt", "learned"]
    (tmp_path / "model" / "node.onnx").write_bytes(b"")
    assert run([*command[:-1], f"--out={tmp_path / 'again'}"]) == 2
    assert "node.onnx was altered or truncated" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
