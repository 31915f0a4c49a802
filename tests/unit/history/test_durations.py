"""Expected durations on numbers worked by hand, and whose runs a new class learns from."""

import math

import pytest

from stowplan.errors import InvalidInput
from stowplan.observe.history import ClassKey, DurationModel, ExpectedDuration, Source, WorkShape
from tests.history_cases import ALIGN, SHAPE, SORT, seen

T_09_5 = 1.4759  # Student's 0.9 quantile with 5 degrees of freedom


def test_three_equal_runs_by_hand() -> None:
    model = DurationModel([seen(40.0, run=f"w{i}", seen_s=100.0) for i in range(3)])
    found = model.expected(ALIGN)
    assert (found.source, found.runs, found.effective_runs) == (Source.CLASS, 3, 3.0)
    assert found.expected_s == pytest.approx(40.0)
    # ν = 3 + 2; σ² = (3 × 0.3² + 2 × 0²) / 5; the next run: σ √(1 + 1/3).
    sigma = math.sqrt(3 * 0.09 / 5) * math.sqrt(4 / 3)
    assert found.high_s == pytest.approx(40.0 * math.exp(T_09_5 * sigma), rel=1e-3)
    assert found.low_s == pytest.approx(40.0 * math.exp(-T_09_5 * sigma), rel=1e-3)


def test_newer_runs_weigh_more_by_hand() -> None:
    # Eight newer runs halve a weight: of 17 runs, one after the other, those of 10 s weigh least, 20 s most.
    runs = [seen(10.0 if i < 9 else 20.0, run=f"w{i}", seen_s=1000.0 * i) for i in range(17)]
    assert DurationModel(runs).expected(ALIGN).expected_s == pytest.approx(20.0)
    assert DurationModel(runs).expected(ALIGN).runs == 17
    assert 13.0 < DurationModel(runs).expected(ALIGN).effective_runs < 17.0


def test_one_run_is_not_taken_to_be_exact() -> None:
    found = DurationModel([seen(100.0)]).expected(ALIGN)
    assert found.expected_s == pytest.approx(100.0)
    assert found.low_s < 60.0
    assert found.high_s > 150.0


def test_an_item_has_its_own_duration_until_items_are_told_to_mean_nothing() -> None:
    once = [seen(seconds, item=item) for item, seconds in (("0", 10.0), ("1", 100.0), ("2", 1000.0))]
    found = DurationModel(once).expected(ALIGN, item="2")
    assert (found.source, found.expected_s) == (Source.ITEM, pytest.approx(1000.0))
    assert DurationModel(once).expected(ALIGN, item="9").source is Source.CLASS
    shuffled = [
        seen(10.0 ** (1 + (index + run) % 3), item=str(index), run=f"w{run}", seen_s=1000.0 * run)
        for run in range(6)
        for index in range(6)
    ]
    found = DurationModel(shuffled).expected(ALIGN, item="2")
    assert found.expected_s == pytest.approx(100.0, rel=0.05)


def test_items_that_come_again_are_told_apart() -> None:
    repeated = [
        seen(10.0 * (index + 1) * (1.0 + 0.01 * run), item=str(index), run=f"w{run}", seen_s=1000.0 * run)
        for run in range(4)
        for index in range(5)
    ]
    model = DurationModel(repeated)
    assert model.expected(ALIGN, item="4").expected_s == pytest.approx(51.0, rel=0.02)
    assert model.expected(ALIGN, item="4").spread_factor < model.expected(ALIGN).spread_factor


def test_a_run_that_goes_on_raises_what_is_expected() -> None:
    ended = [seen(seconds, run=f"w{seconds}", seen_s=2000.0) for seconds in (10.0, 11.0, 12.0)]
    going_on = [seen(60.0, run=f"x{i}", seen_s=2000.0, is_complete=False) for i in range(4)]
    assert DurationModel(ended).expected(ALIGN).expected_s == pytest.approx(11.0)
    found = DurationModel(ended + going_on).expected(ALIGN)
    assert found.runs == 3
    assert found.expected_s > 12.0


def test_a_bound_below_all_ends_changes_nothing_of_the_middle() -> None:
    ended = [seen(seconds, run="w", seen_s=2000.0) for seconds in (10.0, 11.0, 12.0)]
    bound = seen(1.0, run="w", seen_s=2000.0, is_complete=False)
    assert DurationModel([*ended, bound]).expected(ALIGN).expected_s == pytest.approx(11.0)


def test_a_class_that_only_goes_on_takes_longer_than_that() -> None:
    found = DurationModel([seen(5000.0, is_complete=False)]).expected(ALIGN)
    assert found.source is Source.NOTHING
    assert found.longer_than_s == 5000.0
    assert found.expected_s > 5000.0


def test_zero_seconds_are_half_of_the_clocks_resolution() -> None:
    assert DurationModel([seen(0.0)]).expected(ALIGN).expected_s == pytest.approx(0.5)


def test_another_kind_of_machine() -> None:
    known = [
        seen(seconds, key=key, node_class=node, run=f"w{node}")
        for key, node, seconds in (
            (ALIGN, "new", 10.0),
            (ALIGN, "old", 20.0),
            (SORT, "new", 30.0),
            (SORT, "old", 60.0),
            (ClassKey("x", "y", "z"), "new", 5.0),
        )
    ]
    model = DurationModel(known)
    third = ClassKey("x", "y", "z")
    assert model.expected(third, node_class="new").expected_s == pytest.approx(5.0)
    assert model.expected(third, node_class="old").expected_s == pytest.approx(10.0)
    assert model.expected(third, node_class="old").knows_node_class
    elsewhere = model.expected(third, node_class="never seen")
    assert (elsewhere.knows_node_class, elsewhere.expected_s) == (False, pytest.approx(5.0))


FAR = ClassKey("other", "other", "/other")


@pytest.mark.parametrize(
    ("asked", "shape", "source", "expected_s"),
    [
        (ClassKey("new-flow", "align", "/x"), SHAPE, Source.TEMPLATE, 40.0),
        (ClassKey("new-flow", "novel", "/x"), SHAPE, Source.SHAPE, 40.0),
        (ClassKey("variant-calling", "novel", "/x"), None, Source.WORKFLOW, 20.0),
        (ClassKey("variant-calling", "novel", "/x"), WorkShape("a", "b", 1.0, 1), Source.WORKFLOW, 20.0),
        (ClassKey("new-flow", "novel", "/x"), None, Source.ALL, 40.0),
    ],
)
def test_a_new_class_learns_from_its_nearest_kin(
    asked: ClassKey, shape: WorkShape | None, source: Source, expected_s: float
) -> None:
    model = DurationModel([seen(40.0, shape=SHAPE), seen(10.0, key=SORT), seen(160.0, key=FAR)])
    found = model.expected(asked, shape=shape)
    assert (found.source, found.expected_s) == (source, pytest.approx(expected_s))
    assert not found.knows_node_class


def test_kin_are_less_sure_the_farther_they_are() -> None:
    model = DurationModel([seen(40.0, shape=SHAPE), seen(10.0, key=SORT), seen(160.0, key=FAR)])
    factors = [
        model.expected(asked).spread_factor
        for asked in (
            ALIGN,
            ClassKey("new-flow", "align", ""),
            ClassKey("variant-calling", "novel", ""),
            ClassKey("new-flow", "novel", ""),
        )
    ]
    assert factors == sorted(factors)


def test_kin_that_agree_narrow_the_step_for_others() -> None:
    alike = [seen(40.0 + i, key=ClassKey(f"flow-{i % 3}", f"tpl-{i // 3}", f"/{i}")) for i in range(30)]
    model = DurationModel(alike)
    assert model.expected(ClassKey("new", "tpl-1", "/x")).spread_factor < 1.6
    assert DurationModel(alike[:3]).expected(ClassKey("new", "tpl-0", "/x")).spread_factor > 1.7


def test_nothing_seen_is_a_wide_guess() -> None:
    found = DurationModel([]).expected(ALIGN)
    assert (found.source, found.runs, found.expected_s) == (Source.NOTHING, 0, pytest.approx(60.0))
    assert found.high_s > 10 * found.expected_s > 100 * found.low_s
    assert "by default" in found.in_words()


def test_words() -> None:
    words = DurationModel([seen(40.0, run=f"w{i}") for i in range(3)]).expected(ALIGN).in_words()
    assert words == "40 s (26.9–59.4 s in 8 of 10), from 3 runs by class"
    kin = DurationModel([seen(40.0)]).expected(ClassKey("n", "align", "m")).in_words()
    assert kin.endswith("from 1 class by template")


def law(log_spread: float = 0.5) -> ExpectedDuration:
    return ExpectedDuration(
        log_middle=math.log(100.0),
        log_spread=log_spread,
        freedom=math.inf,
        source=Source.CLASS,
        runs=9,
        effective_runs=9.0,
    )


def test_how_much_is_left_of_a_run() -> None:
    assert law().after(0.0) == pytest.approx(100.0)
    # Half of what lasts beyond the median lies above the upper quartile.
    assert law().after(100.0) == pytest.approx(100.0 * math.exp(0.5 * 0.67449), rel=1e-4)
    assert law().after(1e6) >= 1e6
    assert law().after(1e300) == 1e300
    assert law(log_spread=0.0).after(40.0) == pytest.approx(100.0)
    assert law(log_spread=0.0).after(400.0) == 400.0


def test_only_what_is_known_of_the_tails_is_told() -> None:
    assert law().quantile_s(0.5) == pytest.approx(100.0)
    with pytest.raises(InvalidInput, match=r"0\.99.*within"):
        law().quantile_s(0.99)


@pytest.mark.parametrize("elapsed_s", [-1.0, math.nan, math.inf])
def test_times_that_no_run_has_are_refused(elapsed_s: float) -> None:
    with pytest.raises(InvalidInput, match="elapsed_s"):
        seen(elapsed_s)


def test_a_time_of_seeing_must_be_one() -> None:
    with pytest.raises(InvalidInput, match="seen_s is nan"):
        seen(1.0, seen_s=math.nan)


def test_keys_that_name_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="all empty"):
        ClassKey("", "", "")
    with pytest.raises(InvalidInput, match="NUL"):
        ClassKey("a\0", "", "")
