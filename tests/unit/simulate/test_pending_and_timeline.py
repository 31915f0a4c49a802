import math
from functools import partial
from typing import Any

import pytest

from stowplan.core.domain import PendingTask, Workflow, WorkflowProgress
from stowplan.errors import InvalidInput
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.pending import PendingQueue
from stowplan.simulate.timeline import Timeline
from tests.simulation_cases import task

FLOW = Workflow("w", tuple(task(f"t{i}", cores=1.0 if i < 6 else 2.0) for i in range(9)))
PROGRESS = WorkflowProgress("w", FLOW, 0.0)


def pending(index: int, ready_s: float = 0.0) -> PendingTask:
    return PendingTask(f"w/t{index}", PROGRESS, index, ready_s)


def test_order_is_ready_time_then_key() -> None:
    queue = PendingQueue(None)
    queue.add([pending(3), pending(1)])
    queue.add([pending(2, 5.0), pending(0, 4.0)])
    assert [one.index for one in queue.window()] == [1, 3, 0, 2]
    assert len(queue) == 4


def test_removal_keeps_the_order() -> None:
    queue = PendingQueue(None)
    queue.add([pending(index) for index in range(4)])
    gone = [pending(1), pending(2)]
    queue.remove({one.key for one in gone}, gone)
    assert [one.index for one in queue.window()] == [0, 3]
    queue.note_backlog()
    assert queue.peak == len(queue) == 2


def test_a_window_is_shared_by_the_shapes_oldest_first() -> None:
    queue = PendingQueue(4)
    queue.add([pending(index) for index in range(9)])  # six of one shape, three of another
    assert [one.index for one in queue.window()] == [0, 1, 6, 7]
    gone = [pending(6), pending(7), pending(8)]
    queue.remove({one.key for one in gone}, gone)
    assert [one.index for one in queue.window()] == [0, 1, 2, 3]
    assert [one.index for one in queue.tasks()] == [0, 1, 2, 3, 4, 5]


def test_what_found_no_node_is_looked_at_last() -> None:
    queue = PendingQueue(3)
    queue.add([pending(index) for index in range(9)])
    assert [one.index for one in queue.window()] == [0, 1, 6]
    queue.put_last([pending(0).task.shape])
    assert [one.index for one in queue.window()] == [0, 6, 7]


def test_timeline_runs_in_order_of_time_then_of_planning() -> None:
    timeline, seen = Timeline(), []
    for name, time_s in (("late", 3.0), ("first", 1.0), ("second", 1.0)):
        timeline.plan(time_s, lambda now_s, name=name: seen.append((name, now_s)))
    assert timeline.next_s == 1.0
    assert timeline.run_due(2.0) == 2
    assert seen == [("first", 1.0), ("second", 1.0)]
    timeline.run_due(3.0)
    assert timeline.next_s == math.inf


def test_what_an_action_plans_for_now_runs_now() -> None:
    timeline, seen = Timeline(), []

    def again(count: int, now_s: float) -> None:
        seen.append(count)
        if count < 3:
            timeline.plan(now_s, partial(again, count + 1))

    timeline.plan(1.0, partial(again, 0))
    assert timeline.run_due(1.0) == 4
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduling_interval_s": -1.0},
        {"pod_startup_s": math.nan},
        {"binding_s": math.inf},
        {"horizon_s": 0.0},
        {"max_retries": -1},
        {"window_tasks": 0},
        {"usage_points": 1},
    ],
)
def test_options_out_of_range_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(fields))):
        SimulationOptions(**fields)
