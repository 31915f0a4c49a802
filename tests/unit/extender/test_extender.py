"""Scores become levels, a failure becomes a neutral answer, and nothing is changed by being asked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import validate_state
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, make_policy
from stowplan.errors import InvalidInput
from stowplan.serve.extender.levels import UNKNOWN
from stowplan.serve.extender.settings import ExtenderSettings
from tests.unit.extender.cases import Bench, OwnWorkflows, live_pod, question


class Preference:
    """A policy that scores nodes by name, and does whatever else the test wants."""

    name = "preference"
    breaks_ties_randomly = True
    order: Sequence[int] = (0,)

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.by_name = scores
        self.error: Exception | None = None
        self.takes_s = 0.0
        self.bench: Bench | None = None
        self.asked = 0

    def plan(self, view: CycleView) -> "Preference":
        self.asked += 1
        if self.error is not None:
            raise self.error
        if self.bench is not None:
            self.bench.now_s += self.takes_s
        self.view = view
        return self

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        del index, filters
        state = self.view.state
        found = np.full(state.capacity, np.nan)
        for name, row in state.rows():
            found[row] = self.by_name.get(name, 0.0)
        return found

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        del index
        return 60.0 + row

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        del index, row
        return {"liking": 1.0}


def preferring(
    scores: Mapping[str, float], settings: ExtenderSettings | None = None
) -> tuple[Bench, Preference]:
    policy = Preference(scores)
    bench = Bench(policy, nodes=len(scores), settings=settings)
    policy.bench = bench
    return bench, policy


# ---- what is answered ----


def test_levels_follow_the_scores() -> None:
    bench, _ = preferring({"n0": 1.0, "n1": 3.0, "n2": 2.0})
    assert bench.prioritize(bench.arrive(live_pod("p")), ["n2", "n0", "n1"]) == {"n2": 9, "n0": 8, "n1": 10}
    assert bench.extender.degraded == ""


def test_a_node_that_cannot_take_the_pod_is_last_and_one_that_is_not_known_in_the_middle() -> None:
    policy = Preference({"big": 1.0, "small": 9.0})
    bench = Bench(policy, nodes={"big": 8000, "small": 500})
    answer = bench.prioritize(bench.arrive(live_pod("p", cpu=1000)), ["small", "new", "big"])
    assert answer == {"small": 0, "new": UNKNOWN, "big": 10}


@pytest.mark.parametrize(
    "policy", ["kube-scheduler", "srpt-physics", "heft", "best-fit", "round-robin", "random"]
)
def test_every_kind_of_policy_answers(policy: str) -> None:
    bench = Bench(policy, nodes=5)
    names = [f"n{number}" for number in range(5)]
    for number in range(8):
        answer = bench.prioritize(bench.arrive(live_pod(f"p{number}")))
        assert list(answer) == names
        assert set(answer.values()) <= set(range(11))
        assert max(answer.values()) in {0, 10}, "the best node has the highest level, or none has one"
    assert bench.extender.degraded == ""


def test_no_preference_is_a_neutral_answer_and_no_fault() -> None:
    bench, _ = preferring({"n0": 1.0, "n1": 1.0})
    assert set(bench.prioritize(bench.arrive(live_pod("p"))).values()) == {0}
    assert bench.counted("neutral_answers_total", cause="no_preference") == 1
    assert bench.extender.degraded == ""


def test_being_asked_changes_nothing() -> None:
    bench = Bench("srpt-physics")
    state = bench.feed.state
    sequence = state.sequence
    for number in range(20):
        bench.prioritize(bench.arrive(live_pod(f"p{number}")))
    assert (state.sequence, len(state.pods)) == (sequence, 0)
    validate_state(state)


# ---- pods ----


def test_the_pod_of_the_feed_is_taken_and_any_other_is_read_once() -> None:
    bench, _ = preferring({"n0": 1.0, "n1": 2.0})
    known = bench.arrive(live_pod("known"))
    bench.prioritize(known)
    assert bench.read == []
    for changed in (
        live_pod("fresh"),
        replace(known, uid="another"),
        replace(known, shape=replace(known.shape, labels=(("app", "y"),))),
        replace(known, shape=replace(known.shape, own_nomination=known.key)),
    ):
        bench.read.clear()
        bench.readable[changed.name] = changed
        bench.prioritize(changed)
        bench.extender.prioritize(question(changed, ["n0", "n1"]))
        assert len(bench.read) == 1
        bench.extender._pods._recent.clear()


def test_a_pod_that_cannot_be_read_is_answered_neutrally() -> None:
    bench, _ = preferring({"n0": 1.0, "n1": 2.0})
    assert set(bench.prioritize(live_pod("odd")).values()) == {0}
    assert bench.counted("neutral_answers_total", cause="pod_unreadable") == 1


# ---- failures ----


def test_a_state_that_is_not_settled_prefers_nothing() -> None:
    bench, policy = preferring({"n0": 1.0, "n1": 2.0})
    pod = bench.arrive(live_pod("p"))
    bench.feed.is_settled = False
    assert set(bench.prioritize(pod).values()) == {0}
    assert bench.counted("neutral_answers_total", cause="not_settled") == 1
    assert (policy.asked, "not wholly known" in bench.extender.degraded) == (0, True)
    bench.feed.is_settled = True
    assert bench.prioritize(pod) == {"n0": 9, "n1": 10}
    assert bench.extender.degraded == ""


@pytest.mark.parametrize("error", [InvalidInput("no model is loaded"), IndexError("row 7"), MemoryError()])
def test_a_policy_that_fails_prefers_nothing_until_it_is_well(error: Exception) -> None:
    bench, policy = preferring({"n0": 1.0, "n1": 2.0})
    policy.error = error
    pod = bench.arrive(live_pod("p"))
    with capture_logs() as lines:
        assert set(bench.prioritize(pod).values()) == {0}
        assert set(bench.prioritize(pod).values()) == {0}
    assert [(line["event"], line["pod"]) for line in lines] == [("scoring failed", "ns/p")], "told once"
    assert type(error).__name__ in bench.extender.degraded
    assert bench.extender.status["degraded"] == bench.extender.degraded
    assert bench.counted("neutral_answers_total", cause="scoring_failed") == 2
    policy.error = None
    assert bench.prioritize(pod) == {"n0": 9, "n1": 10}
    assert bench.extender.degraded == ""


def test_what_takes_too_long_is_answered_neutrally_and_after_some_in_a_row_at_once() -> None:
    bench, policy = preferring(
        {"n0": 1.0, "n1": 2.0}, ExtenderSettings(budget_s=0.05, slow_in_a_row=3, rest_s=5.0)
    )
    pod = bench.arrive(live_pod("p"))
    policy.takes_s = 0.08
    for _ in range(3):
        assert set(bench.prioritize(pod).values()) == {0}
    assert bench.counted("neutral_answers_total", cause="over_budget") == 3
    assert "80 ms" in bench.extender.degraded
    assert bench.extender.status["resting"] is True
    for _ in range(4):
        began_s = bench.now_s
        assert set(bench.prioritize(pod).values()) == {0}
        assert bench.now_s == began_s
    assert (policy.asked, bench.counted("neutral_answers_total", cause="resting")) == (3, 4)
    # Still slow after the rest: one more wait, then it rests again at once.
    bench.now_s += 5.0
    bench.prioritize(pod)
    bench.prioritize(pod)
    assert (policy.asked, bench.counted("neutral_answers_total", cause="resting")) == (4, 5)
    bench.now_s += 5.0
    policy.takes_s = 0.0
    assert bench.prioritize(pod) == {"n0": 9, "n1": 10}
    assert bench.extender.degraded == ""


def test_an_answer_in_time_counts_the_slow_ones_anew() -> None:
    bench, policy = preferring({"n0": 1.0, "n1": 2.0})
    pod = bench.arrive(live_pod("p"))
    for _ in range(5):
        policy.takes_s = 0.08
        bench.prioritize(pod)
        bench.prioritize(pod)
        policy.takes_s = 0.0
        assert bench.prioritize(pod) == {"n0": 9, "n1": 10}
    assert bench.counted("neutral_answers_total", cause="resting") == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("budget_s", 0.0),
        ("budget_s", float("nan")),
        ("rest_s", -1.0),
        ("in_flight_s", -1.0),
        ("slow_in_a_row", 0),
        ("largest_body_bytes", 10),
        ("silent_after", -1),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"{field} is {value}"):
        replace(ExtenderSettings(), **{field: value})


# ---- in flight ----


def spread(bench: Bench, pods: int) -> list[str]:
    """Where a burst of pods would go, none of them seen bound while it lasts."""
    chosen: list[str] = []
    for number in range(pods):
        answer = bench.prioritize(bench.arrive(live_pod(f"p{number}", cpu=2000)))
        chosen.append(max(answer, key=lambda name: answer[name]))
    return chosen


def test_a_burst_does_not_herd_onto_one_node() -> None:
    assert sorted(spread(Bench("heft", nodes=4), 8)) == sorted(f"n{number % 4}" for number in range(8))
    assert set(spread(Bench("heft", nodes=4, settings=ExtenderSettings(in_flight_s=0.0)), 8)) == {"n0"}


def test_a_burst_fills_a_node_where_the_policy_packs() -> None:
    assert spread(Bench("best-fit", nodes=3), 6) == ["n0"] * 4 + ["n1"] * 2  # four fit on a node


def test_the_foreseen_ends_when_the_watch_knows_better_or_time_is_up() -> None:
    bench = Bench("heft", nodes=2, settings=ExtenderSettings(in_flight_s=2.0))
    first = bench.arrive(live_pod("first", cpu=2000))
    assert bench.prioritize(first) == {"n0": 10, "n1": 9}
    assert bench.extender.status["in_flight"] == 1
    bench.bind(first, "n1")  # kube-scheduler chose otherwise
    second = bench.arrive(live_pod("second", cpu=2000))
    assert bench.prioritize(second) == {"n0": 10, "n1": 9}
    assert bench.extender.status["in_flight"] == 1
    bench.now_s += 2.5  # it was never bound
    third = bench.arrive(live_pod("third", cpu=2000))
    assert bench.prioritize(third) == {"n0": 10, "n1": 9}


def test_a_pod_that_is_asked_about_again_does_not_stand_in_its_own_way() -> None:
    bench = Bench("heft", nodes=2)
    pod = bench.arrive(live_pod("p", cpu=6000))
    for _ in range(3):
        assert bench.prioritize(pod) == {"n0": 10, "n1": 9}
    bench.extender.listener.pod_gone(bench.feed.pods.pop(pod.key))
    assert bench.extender.status["in_flight"] == 0


def test_nodes_that_come_and_go_are_followed() -> None:
    bench = Bench("heft", nodes=2)
    bench.prioritize(bench.arrive(live_pod("a", cpu=2000)))
    bench.set_node("n2", 8000)
    answer = bench.prioritize(bench.arrive(live_pod("b", cpu=2000)))
    assert answer == {"n1": 10, "n2": 9, "n0": 8}


def test_a_whole_pool_of_nodes_can_come_at_once() -> None:
    bench = Bench("heft", nodes=2)
    bench.prioritize(bench.arrive(live_pod("a", cpu=2000)))
    for number in range(2, 50):  # the copy has to grow, twice
        bench.set_node(f"n{number}", 8000)
    bench.bind(bench.arrive(live_pod("b", cpu=2000)), "n49")
    answer = bench.prioritize(bench.arrive(live_pod("c", cpu=2000)))
    assert bench.extender.degraded == ""
    assert (answer["n0"], answer["n49"], answer["n1"]) == (0, 0, 10)


def test_after_a_fault_the_copy_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("heft", nodes=2)
    bench.prioritize(bench.arrive(live_pod("a", cpu=2000)))
    pod = bench.arrive(live_pod("b", cpu=4000))
    bench.prioritize(pod)
    bench.bind(pod, "n1")
    with monkeypatch.context() as faulty, capture_logs():
        faulty.setattr(bench.extender._in_flight, "_add_pods", lambda row: [][row])
        assert set(bench.prioritize(bench.arrive(live_pod("c"))).values()) == {0}
    assert "IndexError" in bench.extender.degraded
    assert bench.prioritize(bench.arrive(live_pod("d"))) == {"n0": 10, "n1": 9}
    assert bench.extender.degraded == ""


@pytest.mark.parametrize(
    "limit", ["stowplan.core.domain.state._JOURNAL_LIMIT", "stowplan.serve.extender.inflight._MANY"]
)
def test_many_changes_at_once_start_the_copy_anew(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("heft", nodes=2)
    bench.prioritize(bench.arrive(live_pod("a", cpu=2000)))
    before = bench.extender._in_flight.state
    monkeypatch.setattr(limit, 8)
    for number in range(20):  # more than the journal keeps
        bench.set_node("n2", 7000 + number)
    assert bench.prioritize(bench.arrive(live_pod("b", cpu=2000))) == {"n0": 10, "n1": 9, "n2": 8}
    assert bench.extender._in_flight.state is not before


def test_policies_are_asked_as_the_binder_asks_them() -> None:
    """The best node is the one that an engine's cycle would take, pod after pod."""
    for name in ("heft", "srpt-physics", "best-fit", "tetris"):
        bench = Bench(name, nodes={"n0": 8000, "n1": 6000, "n2": 12000})
        state = bench.feed.state.copy()
        engine = Engine(state, make_policy(name), rng=np.random.default_rng(0))
        for number in range(9):
            pod = live_pod(f"p{number}", cpu=1500)
            ((_, placed),) = engine.cycle(bench.now_s, [OwnWorkflows().task_of(pod, bench.now_s)]).placed
            answer = bench.prioritize(bench.arrive(pod))
            assert max(answer, key=lambda node: answer[node]) == placed.node_name
            if number % 2:
                bench.bind(pod, placed.node_name)
