"""Whatever the scores: order is kept as far as eleven levels allow."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.serve.extender.levels import HIGHEST, levels_of

# Whole numbers: none are so close that they count as equal, and many are equal.
scores = st.lists(
    st.one_of(st.just(-np.inf), st.integers(-3, 3).map(float), st.integers(-(10**6), 10**6).map(float)),
    max_size=40,
)


@given(scores=scores, draws_lots=st.booleans(), data=st.data())
def test_order_is_kept(scores: list[float], draws_lots: bool, data: st.DataObject) -> None:
    rows = data.draw(st.permutations(range(len(scores))))
    levels, best = levels_of(np.array(scores), np.array(rows, dtype=np.intp), draws_lots=draws_lots)
    usable = [score for score in scores if score > -np.inf]
    by_policy = sorted(range(len(scores)), key=lambda i: (-scores[i], rows[i]))
    assert best.tolist() == by_policy[: len(usable)]
    if levels is None:
        assert not usable or len(scores) == 1 or (draws_lots and len(set(scores)) == 1)
        return
    found = levels.tolist()
    assert min(found) >= 0
    assert [level for _, level in sorted(zip(scores, found, strict=True))] == sorted(found)
    assert all(level == 0 for score, level in zip(scores, found, strict=True) if score == -np.inf)
    if draws_lots:
        best = sorted(set(usable), reverse=True)[:HIGHEST]
        places = [[found[i] for i, other in enumerate(scores) if other == score] for score in best]
        assert all(len(set(place)) == 1 for place in places), "equals have one level"
        assert [place[0] for place in places] == list(range(HIGHEST, HIGHEST - len(best), -1))
    else:
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], rows[i]))[: min(HIGHEST, len(usable))]
        assert [found[i] for i in order] == list(range(HIGHEST, HIGHEST - len(order), -1))
