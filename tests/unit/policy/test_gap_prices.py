"""Worths of gaps worked out by hand, equal to a plain knapsack, and prices that follow what is scarce."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.policy.nodes.gap_prices import LEVEL_MILLI, LEVELS, GapPrices

MOST = 4


def gaps_of(*milli: int) -> np.ndarray:
    """Return the number of gaps by level."""
    return np.bincount(np.array(milli, dtype=np.int64) // LEVEL_MILLI, minlength=LEVELS + 1)


def nodes_with(*wholes: int) -> np.ndarray:
    """Return the number of nodes by how many whole free GPUs they have."""
    return np.bincount(np.array(wholes, dtype=np.int64), minlength=MOST + 1)


def settled(prices: GapPrices, gaps: np.ndarray, wholes: np.ndarray, supply_milli: float) -> GapPrices:
    for _ in range(200):
        prices.adjust(gaps, wholes, supply_milli)
    return prices


def test_worths_are_best_fillings_net_of_prices() -> None:
    rates = {(1, 300): 1.0, (1, 500): 1.0, (1, 1000): 1.0, (2, 1000): 1.0}
    start = {(1, 500): 40.0, (1, 1000): 70.0}
    prices = GapPrices(rates, MOST, start)
    worth = {milli: prices.gap_worth[milli // LEVEL_MILLI] for milli in range(0, 1001, 100)}
    assert [worth[milli] for milli in (0, 200, 300, 400)] == [0.0, 0.0, 300.0, 300.0]
    assert worth[500] == 460.0
    assert worth[600] == 600.0  # 300 twice, not 500 for 460
    assert worth[800] == 760.0  # 500 and 300
    assert worth[900] == 900.0
    assert worth[1000] == 930.0  # one whole request, 1000 - 70
    # Two whole GPUs are worth a request for two, which costs nothing; the third is worth 930.
    assert prices.whole_worth.tolist() == [0.0, 930.0, 2000.0, 2930.0, 4000.0]


def test_gaps_are_rounded_down_and_requests_up() -> None:
    prices = GapPrices({(1, 333): 1.0}, MOST, {})
    assert prices.gap_worth[33] == 0.0
    assert prices.gap_worth[34] == 340.0
    assert prices.gap_worth[LEVELS] == 680.0


def test_without_requests_for_one_gpu_gaps_are_worthless() -> None:
    prices = GapPrices({(2, 1000): 1.0}, MOST, {})
    prices.adjust(gaps_of(500), nodes_with(3), 2000.0)
    assert not prices.gap_worth.any()
    assert prices.whole_worth[1] == 0.0
    assert prices.whole_worth[2] == prices.whole_worth[3] > 0.0


def test_holes_beyond_what_could_fill_them_are_worth_nothing() -> None:
    rates = {(1, 160): 1 / 1000, (1, 840): 1 / 1000}  # one of each per whole GPU asked for
    holes = gaps_of(*[190] * 50)
    few = settled(GapPrices(rates, MOST, {}), holes, nodes_with(1), 10_000.0)  # ten of 160 for fifty holes
    assert few.prices()[1, 160] == pytest.approx(160.0, abs=10.0)
    assert few.gap_worth[19] == pytest.approx(0.0, abs=10.0)
    many = settled(GapPrices(rates, MOST, {}), holes, nodes_with(1), 200_000.0)  # two hundred
    assert many.prices()[1, 160] == pytest.approx(0.0, abs=10.0)
    assert many.gap_worth[19] == pytest.approx(160.0, abs=10.0)


def test_nodes_with_enough_whole_gpus_are_worth_more_only_while_they_are_scarce() -> None:
    # A request for one brings 900 of a GPU, so that a node of four in use for four brings 400 more.
    rates = {(1, 900): 1 / 1000, (4, 1000): 1 / 40_000}
    scarce = settled(GapPrices(rates, MOST, {}), gaps_of(), nodes_with(*[4] * 5), 400_000.0)
    assert scarce.whole_worth[4] - 4 * scarce.whole_worth[1] > 350.0
    plenty = settled(GapPrices(rates, MOST, {}), gaps_of(), nodes_with(*[4] * 50), 400_000.0)
    assert plenty.whole_worth[4] - 4 * plenty.whole_worth[1] < 50.0


def plain_worth(milli: int, net_of: dict[int, float]) -> float:
    """Return the best filling of a gap by trying all numbers of each request."""
    ranges = [range(milli // size + 1) for size in net_of]
    best = 0.0
    for numbers in itertools.product(*ranges):
        if sum(number * size for number, size in zip(numbers, net_of, strict=True)) <= milli:
            best = max(best, sum(n * net for n, net in zip(numbers, net_of.values(), strict=True)))
    return best


SIZES = st.lists(st.integers(12, 100), min_size=1, max_size=3, unique=True)


@settings(max_examples=40)
@given(levels=SIZES, discounts=st.lists(st.floats(0.0, 1.2), min_size=3, max_size=3), gap=st.integers(0, 100))
def test_the_worth_of_a_gap_equals_a_plain_search(
    levels: list[int], discounts: list[float], gap: int
) -> None:
    sizes = [level * LEVEL_MILLI for level in levels]
    start = {(1, size): size * discount for size, discount in zip(sizes, discounts, strict=False)}
    prices = GapPrices(dict.fromkeys(start, 1.0), MOST, start)
    net_of = {size: size - price for (_, size), price in start.items()}
    assert prices.gap_worth[gap] == pytest.approx(plain_worth(gap * LEVEL_MILLI, net_of))


@settings(max_examples=40)
@given(
    levels=SIZES,
    counts=st.lists(st.integers(2, MOST), max_size=2, unique=True),
    gaps=st.lists(st.integers(0, 990), max_size=12),
    wholes=st.lists(st.integers(0, MOST), max_size=6),
    supply=st.floats(0.0, 20_000.0),
)
def test_prices_stay_within_what_requests_bring_and_worths_rise_with_the_room(
    levels: list[int], counts: list[int], gaps: list[int], wholes: list[int], supply: float
) -> None:
    rates = {(1, level * LEVEL_MILLI): 0.001 for level in levels} | {(count, 1000): 0.001 for count in counts}
    prices = GapPrices(rates, MOST, {})
    for _ in range(5):
        prices.adjust(gaps_of(*gaps), nodes_with(*wholes), supply)
        for (count, milli), price in prices.prices().items():
            assert 0.0 <= price <= count * milli
        assert (np.diff(prices.gap_worth) >= 0.0).all()
        assert (prices.gap_worth <= LEVEL_MILLI * np.arange(LEVELS + 1) + 1e-9).all()
        assert (np.diff(prices.whole_worth) >= prices.gap_worth[LEVELS] - 1e-9).all()


def test_a_new_outlook_goes_on_from_known_prices() -> None:
    prices = settled(GapPrices({(1, 300): 0.001}, MOST, {}), gaps_of(300), nodes_with(0), 50_000.0)
    again = GapPrices({(1, 300): 0.001, (1, 700): 0.001}, MOST, prices.prices())
    assert again.prices() == {(1, 300): prices.prices()[1, 300], (1, 700): 0.0}
