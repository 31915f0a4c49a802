"""Whatever is asked and whatever fails: every node is answered once, and the live state stays as it is."""

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from structlog.testing import capture_logs

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import validate_state
from stowplan.core.policy import CycleView
from stowplan.errors import InvalidInput
from stowplan.serve.extender.levels import HIGHEST
from tests.unit.extender.cases import Bench, live_pod

FAILURES = ("", "", "", "plan", "scores", "duration", "slow", "nan", "unsettled", "unreadable")


class Moody:
    """A policy that scores at random and fails where it is told to."""

    name = "moody"
    breaks_ties_randomly = False
    order = (0,)

    def __init__(self) -> None:
        self.bench: Bench | None = None
        self.fails = ""

    def plan(self, view: CycleView) -> "Moody":
        if self.fails == "plan":
            raise InvalidInput("no plan")
        if self.fails == "slow" and self.bench is not None:
            self.bench.now_s += 1.0
        self.view = view
        return self

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        del index, filters
        if self.fails == "scores":
            raise ZeroDivisionError
        found = self.view.rng.choice([-np.inf, -1.0, 0.0, 2.5], self.view.state.capacity)
        return np.full_like(found, np.nan) if self.fails == "nan" else found

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        del index, row
        if self.fails == "duration":
            raise KeyError("row")
        return 1.0

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        del index, row
        return {}


questions = st.lists(
    st.tuples(
        st.sampled_from(FAILURES),
        st.lists(st.sampled_from([f"n{number}" for number in range(8)]), unique=True, min_size=1),
        st.integers(0, 9000),
        st.sampled_from(["", "", "bind", "gone"]),
    ),
    max_size=12,
)


@given(asked=questions, nodes=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_an_answer_is_about_the_nodes_asked_for_and_says_nothing_when_something_fails(
    asked: list[tuple[str, list[str], int, str]], nodes: int
) -> None:
    policy = Moody()
    bench = policy.bench = Bench(policy, nodes=nodes)
    for number, (failure, names, cpu, then) in enumerate(asked):
        policy.fails = failure
        bench.feed.is_settled = failure != "unsettled"
        pod = live_pod(f"p{number}", cpu=cpu)
        if failure != "unreadable":
            bench.arrive(pod)
        before = bench.feed.state.sequence
        with capture_logs():
            answer = bench.prioritize(pod, names)
        assert set(answer.values()) <= set(range(HIGHEST + 1))
        assert bench.feed.state.sequence == before
        if failure:
            assert set(answer.values()) == {0}
        if failure in {"plan", "scores", "slow", "unsettled"}:
            assert bench.extender.degraded
        bench.feed.is_settled = True
        if then == "bind" and failure != "unreadable":
            bench.bind(pod, "n0")
        elif then == "gone" and failure != "unreadable":
            bench.extender.listener.pod_gone(bench.feed.pods.pop(pod.key))
        bench.now_s += 6.0  # it does not rest for longer
    validate_state(bench.feed.state)
    bench.now_s += 10.0
    bench.extender._in_flight.catch_up(bench.now_s)
    assert bench.extender.status["in_flight"] == 0
