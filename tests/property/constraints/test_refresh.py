"""Catching up with the journal gives what compiling afresh gives, whatever happened in between."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterEvent,
    ClusterState,
    NodeSet,
    NominationRemoved,
    PodBound,
    PodNominated,
    PodRemoved,
    PodShape,
)
from tests.property.constraints.strategies import (
    NODE_NAMES,
    bindings,
    claims,
    namespaces,
    node_changes,
    nodes,
    nominations,
    shapes,
)


def _names(compiled: CompiledFilters, state: ClusterState) -> list[tuple[str, ...]]:
    return [compiled.all_refusing(row) for row in range(state.capacity)]


def _try(state: ClusterState, event: ClusterEvent) -> None:
    """Apply an event, unless it gives a GPU away that is in use."""
    if isinstance(event, PodBound) and event.pod.shape.gpu is not None:
        free = state.gpu_free_milli[state.row(event.node_name)]
        if any(free[gpu] < event.pod.shape.gpu.milli for gpu in event.pod.gpus):
            return
    state.apply(event)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_refresh_agrees_with_compiling_afresh(data: st.DataObject) -> None:
    state = ClusterState()
    for name in NODE_NAMES:
        state.apply(NodeSet(data.draw(nodes(name))))
    known: list[PodShape] = data.draw(st.lists(shapes(), min_size=2, max_size=5))
    compiled = [CompiledFilters(state, shape) for shape in known]
    number = 0
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.sampled_from([1, 2, 15]))):
            number += 1
            draw = data.draw(
                st.one_of(
                    bindings(known, f"p{number}"),
                    bindings(known, f"p{number}"),
                    st.just(None),
                    st.one_of(node_changes(), claims, namespaces),
                    nominations(known, f"p{number}"),
                )
            )
            event: ClusterEvent | None = draw
            if event is None:
                if not state.pods:
                    continue
                event = PodRemoved(data.draw(st.sampled_from(sorted(state.pods))))
            _try(state, event)
            nominated = sorted(key for pods in state.nominations.on.values() for key in pods)
            if nominated and data.draw(st.sampled_from([False, False, True])):
                key = data.draw(st.sampled_from(nominated))
                bound = PodBound(BoundPod(key, known[0]), NODE_NAMES[0])
                is_bound = known[0].gpu is None and data.draw(st.booleans())
                state.apply(bound if is_bound else NominationRemoved(key))
        for one in compiled:
            before, feasible_before = _names(one, state), one.feasible.copy()
            rows = one.refresh()
            fresh = CompiledFilters(state, one.shape)
            assert _names(one, state) == _names(fresh, state)
            assert np.array_equal(one.feasible, fresh.feasible)
            assert np.array_equal(one.refused_by, fresh.refused_by)
            if rows is not None:
                looked_at = set(rows.tolist())
                after = _names(one, state)
                changed = {row for row in range(state.capacity) if before[row] != after[row]}
                changed |= set(np.flatnonzero(feasible_before != one.feasible).tolist())
                assert changed <= looked_at


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_answers_agree_with_each_other(data: st.DataObject) -> None:
    state = ClusterState()
    for name in NODE_NAMES:
        state.apply(NodeSet(data.draw(nodes(name))))
    known: list[PodShape] = data.draw(st.lists(shapes(), min_size=1, max_size=3))
    for number in range(data.draw(st.integers(0, 12))):
        _try(state, data.draw(bindings(known, f"p{number}")))
    compiled = CompiledFilters(state, known[0])
    counted: dict[str, int] = {}
    for row in range(state.capacity):
        refusing = compiled.all_refusing(row)
        number = int(compiled.refused_by[row])
        assert bool(compiled.feasible[row]) == (number == 0)
        if not state.is_node[row]:
            assert number == -1
            assert compiled.reason(row) is None
        elif refusing:
            named = FILTERS[number - 1]
            assert named in refusing  # not always the first: what rejects the pod comes before
            assert compiled.reason(row)
            counted[named] = counted.get(named, 0) + 1
        else:
            assert number == 0
            assert compiled.reason(row) is None
    assert compiled.counts() == counted
    if compiled.feasible.any():
        assert compiled.could_ever_fit()
    for key in list(state.pods):
        state.apply(PodRemoved(key))
    alone = CompiledFilters(state, known[0])
    if alone.feasible.any():
        assert compiled.could_ever_fit()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_some_rows_are_judged_as_all_rows_are(data: st.DataObject) -> None:
    state = ClusterState()
    for name in NODE_NAMES:
        state.apply(NodeSet(data.draw(nodes(name))))
    shape = data.draw(shapes())
    for number in range(data.draw(st.integers(0, 6))):
        _try(state, data.draw(bindings([shape], f"p{number}")))
    rows = np.array(data.draw(st.lists(st.integers(0, state.capacity - 1), max_size=8)), dtype=np.intp)
    for _, one in CompiledFilters(state, shape)._filters:
        everywhere = one.refused(slice(None))
        here = one.refused(rows)
        if everywhere is None:
            assert here is None or not here.any()
            continue
        assert np.array_equal(everywhere[rows], np.zeros(len(rows), bool) if here is None else here)
        assert [one.refuses(int(row)) for row in rows] == everywhere[rows].tolist()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_beside_nominated_pods_a_node_is_judged_as_if_they_ran_there(data: st.DataObject) -> None:
    """Other filters than those that kube-scheduler skips or that count nominated pods in their own way."""
    state = ClusterState()
    for name in NODE_NAMES:
        state.apply(NodeSet(data.draw(nodes(name))))
    known: list[PodShape] = data.draw(st.lists(shapes(), min_size=2, max_size=4))
    for number in range(data.draw(st.integers(0, 6))):
        _try(state, data.draw(bindings(known, f"p{number}")))
    shape, other = known[0], known[1]
    exact = {"NodePorts", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration", "NodeAffinity"}
    if shape.affinity or shape.anti_affinity:
        exact.add("InterPodAffinity")
    name = data.draw(st.sampled_from(NODE_NAMES))
    row = state.row(name)
    without = CompiledFilters(state, shape)
    state.apply(PodNominated(BoundPod("promised", dataclasses.replace(other, gpu=None)), name))
    judged = set(CompiledFilters(state, shape).all_refusing(row)) & exact
    state.apply(PodBound(BoundPod("promised", dataclasses.replace(other, gpu=None)), name))
    beside = set(CompiledFilters(state, shape).all_refusing(row)) & exact
    assert judged == beside | (set(without.all_refusing(row)) & exact)
