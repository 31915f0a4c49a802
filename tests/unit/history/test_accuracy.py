"""How well runs were foretold, from what the history has of them."""

import dataclasses
from pathlib import Path

import pytest

from stowplan.observe.history import (
    Execution,
    ExecutionStatus,
    HistoryStore,
    accuracy_of,
    accuracy_of_runs,
)
from stowplan.observe.history.accuracy import relative_error
from tests.history_cases import execution, workflow


def took(real_s: float, expected_s: float | None, source: str = "class") -> Execution:
    one = execution(f"pod-{real_s}-{expected_s}", started_s=100.0, finished_s=100.0 + real_s)
    return dataclasses.replace(one, expected_s=expected_s, expected_source=source)


def test_a_run_is_judged_by_the_median_of_what_was_foretold() -> None:
    executions = [took(10.0, 12.0), took(10.0, 5.0, "template"), took(10.0, 10.0), took(10.0, None)]
    failed = dataclasses.replace(took(10.0, 99.0), status=ExecutionStatus.FAILED)
    found = accuracy_of(workflow(), [*executions, failed])
    assert found is not None
    assert (found.tasks, found.from_own_runs) == (3, 2)
    assert found.median_error == pytest.approx(0.2)
    assert accuracy_of(workflow(), [failed]) is None


@pytest.mark.parametrize(
    ("expected_s", "real_s", "error"), [(10.0, 8.0, 0.25), (6.0, 8.0, 0.25), (0.5, 0.0, 0.0), (1.0, 0.0, 1.0)]
)
def test_an_error_is_a_share_of_the_truth(expected_s: float, real_s: float, error: float) -> None:
    assert relative_error(expected_s, real_s) == pytest.approx(error)


def test_the_newest_runs_come_first(tmp_path: Path) -> None:
    store = HistoryStore.open(f"sqlite:///{tmp_path / 'h.db'}")
    try:
        for number, expected_s in enumerate((50.5, 40.5)):
            uid = f"wf-{number}"
            run = dataclasses.replace(workflow("Succeeded"), workflow_uid=uid)
            one = dataclasses.replace(execution(f"pod-{number}"), workflow_uid=uid, expected_s=expected_s)
            store.write([run, one], 1000.0 + number)
        found = accuracy_of_runs(store)
        assert [run.workflow_uid for run in found] == ["wf-1", "wf-0"]
        assert [run.median_error for run in found] == pytest.approx([0.0, 10.0 / 40.5])
        assert accuracy_of_runs(store, most=1) == found[:1]
    finally:
        store.close()
