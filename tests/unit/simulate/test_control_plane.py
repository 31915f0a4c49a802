"""What surrounds the scheduler: each latency does what its description says, on episodes worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import Workflow
from stowplan.errors import InvalidInput
from stowplan.simulate.faults import Cause, FaultKind, FaultPlan, FaultRule
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads import Poisson, Workload
from tests.simulation_cases import cluster, node, task, workload


def times(what: Workload, options: SimulationOptions, cores: float = 4.0) -> dict[str, tuple[float, float]]:
    """When each task starts and ends on one node."""
    result = Simulation(cluster(node("n", cores=cores)), what, "fifo", seed=0, options=options).run()
    frame = result.tasks.sort("task")
    return {row["task"]: (row["started_s"], row["finished_s"]) for row in frame.to_dicts()}


def chain(*seconds: float) -> Workload:
    tasks = tuple(task(f"t{index}", seconds=length) for index, length in enumerate(seconds))
    edges = tuple((f"t{index}", f"t{index + 1}") for index in range(len(seconds) - 1))
    return workload(Workflow("w", tasks, edges))


def fan(count: int, *, cores: float = 1.0, seconds: float = 10.0) -> Workload:
    return workload(Workflow("w", tuple(task(f"t{n}", seconds=seconds, cores=cores) for n in range(count))))


def test_a_node_starts_one_task_at_a_time() -> None:
    options = SimulationOptions(pod_startup_s=2.0, pod_start_interval_s=3.0)
    assert times(fan(3), options) == {"t0": (2.0, 12.0), "t1": (5.0, 15.0), "t2": (8.0, 18.0)}


def test_a_pause_between_starts_is_not_saved_up() -> None:
    options = SimulationOptions(pod_start_interval_s=3.0)
    assert times(chain(10.0, 10.0), options) == {"t0": (0.0, 10.0), "t1": (10.0, 20.0)}


def test_room_is_held_until_the_end_is_reported() -> None:
    options = SimulationOptions(status_report_s=1.5)
    assert times(fan(2, cores=4.0), options) == {"t0": (0.0, 10.0), "t1": (11.5, 21.5)}


def test_the_workflow_engine_takes_its_time() -> None:
    options = SimulationOptions(status_report_s=1.0, submission_s=4.0)
    assert times(chain(10.0, 10.0), options) == {"t0": (0.0, 10.0), "t1": (15.0, 25.0)}


def test_backing_off_leaves_room_unused() -> None:
    # Three tasks of a whole node, 10.5 s each. The second fails at 0 (looked at again from 1 on, but nothing
    # makes room before 10.5): it starts at 10.5. The third fails at 0 and at 10.5, and gets the room of 21.
    options = SimulationOptions(scheduler_backoff_s=1.0)
    assert times(fan(3, cores=4.0, seconds=10.5), options) == {
        "t0": (0.0, 10.5), "t1": (10.5, 21.0), "t2": (21.0, 31.5),
    }  # fmt: skip
    # With tasks of a second the third is still backing off when the second ends: it waits until 1 + 2 s.
    assert times(fan(3, cores=4.0, seconds=1.0), options) == {
        "t0": (0.0, 1.0), "t1": (1.0, 2.0), "t2": (3.0, 4.0),
    }  # fmt: skip


def test_backing_off_is_bounded() -> None:
    options = SimulationOptions(scheduler_backoff_s=1.0, scheduler_max_backoff_s=1.0)
    assert times(fan(3, cores=4.0, seconds=1.0), options)["t2"] == (2.0, 3.0)


def test_a_node_stands_idle_while_all_back_off() -> None:
    big = Workflow("big", (task("a", cores=4.0, seconds=1.0), task("b", cores=4.0, seconds=1.0)))
    late = Workflow("late", (task("c", cores=4.0, seconds=1.0),))
    what = workload(big, late, times_s=[0.0, 0.9])
    assert times(what, SimulationOptions())["b"] == (1.0, 2.0)
    # b fails at 0 and is looked at again at 1.5. c fails at 0.9 and again at 2.4, just before b ends, so not
    # before 2.4 + 3 s: the node stands idle from 2.5 on.
    found = times(what, SimulationOptions(scheduler_backoff_s=1.5))
    assert (found["b"], found["c"]) == ((1.5, 2.5), (5.4, 6.4))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    interval_s=st.sampled_from([0.0, 0.7]),
    report_s=st.sampled_from([0.0, 1.0]),
    submission_s=st.sampled_from([0.0, 2.5]),
    backoff_s=st.sampled_from([0.0, 1.0]),
)
def test_every_task_runs_once_whatever_surrounds_the_scheduler(
    seed: int, interval_s: float, report_s: float, submission_s: float, backoff_s: float
) -> None:
    rng = np.random.default_rng(seed)
    flows: list[Workflow] = []
    for number in range(3):
        tasks = tuple(
            task(f"t{n}", seconds=float(rng.uniform(0.5, 8.0)), cores=float(rng.integers(1, 4)))
            for n in range(6)
        )
        edges = tuple((f"t{a}", f"t{b}") for a in range(6) for b in range(a + 1, 6) if rng.random() < 0.3)
        flows.append(Workflow(f"w{number}", tasks, edges))
    options = SimulationOptions(
        pod_startup_s=0.5,
        pod_start_interval_s=interval_s,
        status_report_s=report_s,
        submission_s=submission_s,
        scheduler_backoff_s=backoff_s,
        validates=True,
    )
    what = workload(*flows, times_s=[0.0, 3.0, 5.0])
    result = Simulation(cluster(node("n0"), node("n1")), what, "fifo", seed=seed, options=options).run()
    frame = result.tasks
    assert frame.height == 18
    assert set(frame["status"]) == {"done"}
    ended = {(row["workflow"], row["task"]): row["finished_s"] for row in frame.to_dicts()}
    begun = {(row["workflow"], row["task"]): row["placed_s"] for row in frame.to_dicts()}
    for flow in flows:
        for parent, child in flow.edges:
            wait_s = begun[flow.name, child] - ended[flow.name, parent]
            assert wait_s >= report_s + submission_s - 1e-6


def test_a_node_that_falls_silent_reports_when_it_is_back() -> None:
    cut_off = FaultRule(
        kind=FaultKind.NODE_NOT_READY, cause=Cause.NETWORK, nodes=("n",), at_s=(12.0,), duration_s=20.0
    )
    options = SimulationOptions(status_report_s=5.0)
    simulation = Simulation(
        cluster(node("n")), chain(10.0, 10.0), "fifo", seed=0, options=options, faults=FaultPlan((cut_off,))
    )
    rows = simulation.run().tasks.sort("task").to_dicts()
    assert [row["finished_s"] for row in rows] == [10.0, 42.0]
    assert rows[1]["placed_s"] == 32.0


def test_a_bounded_window_and_backing_off_exclude_each_other() -> None:
    with pytest.raises(InvalidInput, match="window_tasks and scheduler_backoff_s exclude each other"):
        SimulationOptions(window_tasks=10, scheduler_backoff_s=1.0)


def test_arrivals_of_the_workload_are_drawn() -> None:
    plain = fan(1)
    own = Workload("w", plain.submissions, arrivals=Poisson(100.0))
    started = {
        name: times(what, SimulationOptions())["t0"][0] for name, what in (("plain", plain), ("own", own))
    }
    assert started["plain"] == 0.0
    assert started["own"] > 0.0
