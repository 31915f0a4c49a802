"""The life of a workflow's tasks."""

import pytest

from stowplan.core.domain import Phase, PodShape, Task, TaskStatus, Workflow, WorkflowProgress, WorkProfile
from stowplan.errors import StateConflict


def progress() -> WorkflowProgress:
    tasks = tuple(
        Task(name, PodShape(), WorkProfile((Phase(s),)), s)
        for name, s in [("a", 1), ("b", 5), ("c", 2), ("d", 3)]
    )
    return WorkflowProgress("w", Workflow("w", tasks, (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))), 0.0)


def test_children_become_pending_when_all_parents_are_done() -> None:
    state = progress()
    assert state.start() == [0]
    state.running(0)
    assert state.done(0) == [1, 2]
    assert state.remaining_work_s == 10.0
    for index in (1, 2):
        state.running(index)
    assert state.done(2) == []
    assert state.done(1) == [3]
    state.running(3)
    assert state.done(3) == []
    assert state.is_finished
    assert not state.has_failed
    assert state.remaining_work_s == 0.0


def test_a_failure_skips_only_the_descendants() -> None:
    state = progress()
    state.start()
    state.running(0)
    state.done(0)
    state.running(1)
    assert state.failed(1) == [3]
    assert state.status.tolist() == [
        TaskStatus.DONE,
        TaskStatus.FAILED,
        TaskStatus.PENDING,
        TaskStatus.SKIPPED,
    ]
    state.running(2)
    assert state.done(2) == []
    assert state.is_finished
    assert state.has_failed


def test_a_lost_task_is_pending_again() -> None:
    state = progress()
    state.start()
    state.running(0)
    state.retry(0)
    assert state.status[0] == TaskStatus.PENDING
    assert state.remaining_work_s == 11.0


def test_impossible_moves_tell_the_story() -> None:
    state = progress()
    with pytest.raises(StateConflict, match="'a' is WAITING; it cannot become RUNNING"):
        state.running(0)
    with pytest.raises(StateConflict, match="'d' is WAITING; it cannot become FAILED"):
        state.failed(3)
