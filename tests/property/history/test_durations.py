"""What holds of expected durations whatever was seen."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.observe.history import ClassKey, DurationModel, ExpectedDuration, Observation, WorkShape

KEYS = [ClassKey(f"flow-{i % 2}", f"tpl-{i % 3}", f"/{i}") for i in range(5)]
STRANGERS = [ClassKey("flow-9", "tpl-1", "/n"), ClassKey("flow-0", "tpl-9", "/n"), ClassKey("x", "", "")]
SHAPES = [None, WorkShape("a", "x", 1.0, 1), WorkShape("b", "y", 2.0, 2)]

observation = st.builds(
    Observation,
    key=st.sampled_from(KEYS),
    elapsed_s=st.floats(1.0, 1e5),
    run=st.sampled_from(["w1", "w2", "w3"]),
    seen_s=st.floats(1e5, 1e6),
    is_complete=st.booleans(),
    item=st.sampled_from(["", "0", "1"]),
    node_class=st.sampled_from(["", "old", "new"]),
    shape=st.sampled_from(SHAPES),
)
observations = st.lists(observation, max_size=25)
question = st.tuples(
    st.sampled_from([*KEYS, *STRANGERS]),
    st.sampled_from(["", "0", "7"]),
    st.sampled_from(["", "old", "never seen"]),
    st.sampled_from(SHAPES),
)  # fmt: skip
Question = tuple[ClassKey, str, str, WorkShape | None]


def ask(seen: list[Observation], asked: Question) -> ExpectedDuration:
    key, item, node_class, shape = asked
    return DurationModel(seen).expected(key, item=item, node_class=node_class, shape=shape)


@given(observations, question, st.randoms(use_true_random=False))
def test_the_order_of_what_was_seen_does_not_matter(
    seen: list[Observation], asked: Question, shuffler: random.Random
) -> None:
    shuffled = list(seen)
    shuffler.shuffle(shuffled)
    assert ask(shuffled, asked) == ask(seen, asked)


@given(observations, question)
def test_the_answer_is_a_law_of_positive_times(seen: list[Observation], asked: Question) -> None:
    found = ask(seen, asked)
    assert 0.0 < found.low_s <= found.expected_s <= found.high_s
    assert found.freedom >= 3.0
    assert found.runs >= 0
    assert found.in_words()


@given(
    st.lists(st.tuples(st.floats(90.0, 110.0), st.sampled_from("abc")), min_size=1, max_size=12),
    st.integers(2, 5),
)
def test_more_of_the_same_evidence_narrows_the_spread(ends: list[tuple[float, str]], times: int) -> None:
    """Where runs scatter no more than is usual: a class that scatters more has to show it first."""
    seen = [
        Observation(key=KEYS[0], elapsed_s=elapsed_s, run=run, seen_s=1e5 + ord(run))
        for elapsed_s, run in ends
    ]
    asked = (KEYS[0], "", "", None)
    once, more = ask(seen, asked), ask(seen * times, asked)
    assert more.effective_runs > once.effective_runs
    assert more.spread_factor < once.spread_factor
    assert more.expected_s == pytest.approx(once.expected_s)


@given(observations, question, st.floats(2.0, 100.0))
def test_if_all_takes_so_many_times_as_long_so_does_the_next(
    seen: list[Observation], asked: Question, times: float
) -> None:
    longer = [replace(each, elapsed_s=each.elapsed_s * times, seen_s=each.seen_s * times) for each in seen]
    before, after = ask(seen, asked), ask(longer, asked)
    assert after.source == before.source
    if before.runs:
        assert after.expected_s == pytest.approx(before.expected_s * times, rel=1e-6)


@given(observations, question, st.floats(1.0, 1e6))
def test_runs_that_go_on_do_not_shorten_what_is_expected(
    seen: list[Observation], asked: Question, elapsed_s: float
) -> None:
    """A bound in a run of weight like all others, as it stands beside ends of the same run."""
    seen = [replace(each, run="w", item="") for each in seen]
    bound = Observation(key=asked[0], elapsed_s=elapsed_s, run="w", seen_s=1e6, is_complete=False)
    asked = (asked[0], "", "", asked[3])
    without, with_it = ask(seen, asked), ask([*seen, bound], asked)
    if without.source == with_it.source == "class":
        alone = [each for each in seen if each.key == asked[0] and not each.node_class]
        if len(alone) == sum(each.key == asked[0] for each in seen):
            assert with_it.expected_s >= without.expected_s * (1.0 - 1e-9)


@given(observations, question, st.floats(0.0, 1e7), st.floats(0.0, 1e7))
def test_the_longer_it_has_run_the_later_it_ends(
    seen: list[Observation], asked: Question, one_s: float, other_s: float
) -> None:
    found = ask(seen, asked)
    early_s, late_s = sorted((one_s, other_s))
    assert found.after(late_s) >= late_s
    assert found.after(late_s) >= found.after(early_s) * (1.0 - 1e-9)
