"""What changed among running tasks is found; a rule that looks only there scores as one that looks anew."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import BoundPod, PodBound, PodRemoved, PodShape, Resources, Task
from stowplan.core.policy import CycleView
from stowplan.core.policy.nodes.predicted import PredictedDuration
from stowplan.core.policy.running import RunningWatch
from tests.record_cases import RULES, Drive

SEEDS = st.integers(0, 2**20)


def view_of(drive: Drive) -> CycleView:
    return CycleView(drive.state, drive.now_s, drive.pending, np.random.default_rng(0), drive.running)


@given(seed=SEEDS, at_most=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_every_running_task_that_is_another_is_told_and_no_other(seed: int, at_most: int) -> None:
    watch = RunningWatch()
    drive = Drive(seed, "srpt")
    before: dict[str, Task] = {}
    entries: set[int] = set()
    for number, _ in enumerate(drive.run(16)):
        if number % at_most:
            continue  # several cycles of others may pass
        view = view_of(drive)
        now = {key: task.pending.task for key, task in view.running.items()}
        others = {key for key in before.keys() | now.keys() if before.get(key) is not now.get(key)}
        told = watch.changed(view)
        assert others <= told
        kept = {key for key, task in view.running.items() if id(task) in entries and not task.pending.actual}
        assert not (told - others) & kept
        assert watch.changed(view) == set()
        before, entries = now, {id(task) for task in view.running.values()}
        running = {id(task.pending.progress) for task in view.running.values()}
        assert watch._watched.keys() == running, "workflows that are over are not remembered"


@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_rule_with_memory_scores_as_one_without(seed: int) -> None:
    kept = PredictedDuration()
    drive = Drive(seed, "srpt")
    for _ in drive.run(12):
        view, fresh = view_of(drive), PredictedDuration()
        kept.begin(view)
        fresh.begin(view)
        for task in drive.pending:
            filters = CompiledFilters(drive.state, task.task.shape, rules=RULES)
            assert kept.scores(task, filters).tolist() == fresh.scores(task, filters).tolist()


def test_a_pod_that_takes_the_name_of_another_is_not_taken_for_it() -> None:
    """Between two cycles a pod of nobody's may go, and another of its name and another size come."""
    drive = Drive(3, "srpt")
    next(drive.run(1))
    kept = PredictedDuration()
    seen: list[float] = []
    for cpu_milli in (100, 3500):
        if "other/same" in drive.state.pods:
            drive.state.apply(PodRemoved("other/same"))
        shape = PodShape(namespace="other", requests=Resources({"cpu": cpu_milli}))
        drive.state.apply(PodBound(BoundPod("other/same", shape), "n0"))
        view, fresh = view_of(drive), PredictedDuration()
        drive.arrive()
        for rule in (kept, fresh):
            rule.begin(view)
        task = drive.pending[-1]
        filters = CompiledFilters(drive.state, task.task.shape)
        scores = kept.scores(task, filters).tolist()
        assert scores == fresh.scores(task, filters).tolist()
        seen.append(sum(scores))
    assert seen[0] != seen[1]
