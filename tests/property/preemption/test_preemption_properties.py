"""What holds of every search, whatever the cluster: checked on a state with the victims really gone."""

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters, Verdict
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    DisruptionBudget,
    LabelSelector,
    Node,
    NodeSet,
    PodAffinityTerm,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from stowplan.core.preemption import (
    BudgetBook,
    Candidate,
    SearchSettings,
    preference,
    search,
    select_victims,
)

APPS = ["a", "b", "c"]
EVERYWHERE = SearchSettings(examines_all=True)


def chance() -> Random:
    return Random(1)  # noqa: S311  (a test that can be repeated)


selectors = st.sampled_from(APPS).map(lambda app: LabelSelector.from_labels({"app": app}))
apart = st.builds(PodAffinityTerm, st.sampled_from(["host", "zone"]), selectors)
even = st.builds(
    SpreadConstraint,
    st.integers(1, 2),
    st.sampled_from(["host", "zone"]),
    st.just(WhenUnsatisfiable.DO_NOT_SCHEDULE),
    selectors,
)
budgets = st.lists(
    st.builds(
        DisruptionBudget,
        st.just("default"),
        st.just("b"),
        selectors,
        st.integers(0, 2),
        st.sets(st.integers(0, 12).map("p{}".format)).map(frozenset),
    ),
    max_size=3,
)


@st.composite
def shapes(draw: st.DrawFn, *, is_plain: bool = False) -> PodShape:
    """Draw a pod; a plain one minds only resources."""
    some = 0 if is_plain else 1
    return PodShape(
        labels=(("app", draw(st.sampled_from(APPS))),),
        requests=Resources({"cpu": draw(st.sampled_from([100, 300, 500, 1000]))}),
        priority=draw(st.sampled_from([-10, 0, 0, 5, 100])),
        anti_affinity=tuple(draw(st.lists(apart, max_size=some))),
        spread=tuple(draw(st.lists(even, max_size=some))),
    )


@st.composite
def clusters(draw: st.DrawFn, *, is_plain: bool = False) -> ClusterState:
    """Draw a cluster with pods that were placed without regard to any filter."""
    state = ClusterState()
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    for name in names:
        labels = (("host", name), ("zone", draw(st.sampled_from(["x", "y"]))))
        state.apply(NodeSet(Node(name, Resources({"cpu": 1000, "pods": 8}), labels=labels)))
    for number in range(draw(st.integers(0, 12))):
        pod = BoundPod(f"default/p{number}", draw(shapes(is_plain=is_plain)))
        state.apply(PodBound(pod, draw(st.sampled_from(names))))
    return state


times = st.dictionaries(st.integers(0, 12).map("default/p{}".format), st.integers(0, 3).map(float))


@settings(max_examples=60, deadline=None)
@given(clusters(), shapes(), budgets, times)
def test_without_its_victims_a_candidate_takes_the_pod(
    state: ClusterState, shape: PodShape, limits: list[DisruptionBudget], started: dict[str, float]
) -> None:
    compiled = CompiledFilters(state, shape)
    before = state.sequence
    found = search(
        state, compiled, limits, lambda key: started.get(key, 9.0), settings=EVERYWHERE, generator=chance()
    )
    assert state.sequence == before
    assert not compiled.refresh().size  # pyright: ignore[reportOptionalMemberAccess]  (empty: nothing changed)
    for one in found.candidates:
        assert one.victims
        assert all(pod.shape.priority < shape.priority for pod in one.victims)
        priorities = [pod.shape.priority for pod in one.victims]
        assert priorities == sorted(priorities, reverse=True)
        assert 0 <= one.violations <= len(one.victims)
        emptied = state.copy()
        for pod in one.victims:
            emptied.apply(PodRemoved(pod.key))
        row = state.row(one.node_name)
        assert not compiled.feasible[row]
        assert CompiledFilters(emptied, shape).feasible[row]
    if found.best is not None:
        best = preference(found.best, lambda key: started.get(key, 9.0))
        assert all(best <= preference(one, lambda key: started.get(key, 9.0)) for one in found.candidates)


@settings(max_examples=60, deadline=None)
@given(clusters(is_plain=True), shapes(is_plain=True), budgets)
def test_no_victim_dies_in_vain(state: ClusterState, shape: PodShape, limits: list[DisruptionBudget]) -> None:
    """Where only resources matter, no single victim could stay."""
    compiled = CompiledFilters(state, shape)
    found = search(state, compiled, limits, lambda _: 0.0, settings=EVERYWHERE, generator=chance())
    for one in found.candidates:
        for spared in one.victims:
            emptied = state.copy()
            for pod in one.victims:
                if pod is not spared:
                    emptied.apply(PodRemoved(pod.key))
            assert not CompiledFilters(emptied, shape).feasible[state.row(one.node_name)]


@settings(max_examples=60, deadline=None)
@given(clusters(), shapes(), st.data())
def test_a_trial_agrees_with_the_state_that_it_stands_for(
    state: ClusterState, shape: PodShape, data: st.DataObject
) -> None:
    compiled = CompiledFilters(state, shape)
    rows = np.array([row for _, row in state.rows()])
    place = data.draw(st.integers(0, len(rows) - 1))
    row, places = rows[place], np.array([place])
    trial = compiled.trial(rows)
    changed = state.copy()
    for number in data.draw(st.permutations(trial.present[trial.pods.places == place].tolist())):
        if data.draw(st.booleans()):
            pod = trial.pods.pods[number]
            trial.remove(np.array([number]))
            changed.apply(PodRemoved(pod.key))
            if data.draw(st.booleans()):
                trial.restore(np.array([number]))
                changed.apply(PodBound(pod, state.node(row).name))
        is_accepted = trial.verdicts(places)[0] == Verdict.ACCEPTS
        assert is_accepted == bool(CompiledFilters(changed, shape).feasible[row])


@settings(max_examples=60, deadline=None)
@given(clusters(), shapes(), budgets, times)
def test_nodes_that_are_tried_together_are_told_what_each_is_told_alone(
    state: ClusterState, shape: PodShape, limits: list[DisruptionBudget], started: dict[str, float]
) -> None:
    compiled, book = CompiledFilters(state, shape), BudgetBook(limits)
    rows = np.array([row for _, row in state.rows()])

    def told(rows: NDArray[np.intp]) -> list[Candidate | None]:
        return select_victims(state, compiled, rows, book, lambda key: started.get(key, math.inf))

    assert told(rows) == [one for row in rows for one in told(np.array([row]))]
