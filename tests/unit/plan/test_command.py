"""`stowplan plan` with a history."""

from pathlib import Path

import pytest
import yaml

from stowplan.cli.process import run
from stowplan.kube.plan import RANK
from stowplan.observe.history import ClassKey, Execution, ExecutionStatus, HistoryStore


def test_ranks_come_from_what_the_last_runs_took(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = HistoryStore.open(url)
    for template, took_s in (
        ("fetch", 2.0),
        ("align", 500.0),
        ("sort", 5.0),
        ("check", 1.0),
        ("report", 4.0),
    ):
        runs = [
            Execution(
                pod_uid=f"{template}-{number}",
                key=ClassKey("generated/pipeline", template, f".{template}"),
                started_s=100.0,
                finished_s=100.0 + took_s,
                status=ExecutionStatus.DONE,
            )
            for number in range(20)
        ]
        store.write(runs, 1000.0)
    store.close()
    assert run(["plan", "-f", str(repository / "examples" / "workflow.yaml"), "--history", url]) == 0
    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    ranks = [float(item["metadata"]["annotations"][RANK]) for item in spec["templates"][1:]]
    assert ranks == pytest.approx([511.0, 509.0, 9.0, 5.0, 4.0], rel=0.05)


def test_a_history_that_is_not_there_is_refused_and_not_made(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nowhere.db"
    arguments = ["-f", str(repository / "examples" / "workflow.yaml"), "--history", f"sqlite:///{file}"]
    assert run(["plan", *arguments]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert not file.exists()
