"""Quantiles of kube-scheduler's histograms, as Prometheus reads them."""

import pytest

from bench.live_extender import quantile

INF = float("inf")


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ([(1.0, 10.0), (2.0, 20.0), (4.0, 20.0), (INF, 20.0)], 0.5, 1.0),
        ([(1.0, 10.0), (2.0, 20.0), (4.0, 20.0), (INF, 20.0)], 0.75, 1.5),
        ([(1.0, 0.0), (2.0, 0.0), (4.0, 10.0), (INF, 10.0)], 0.5, 3.0),
        ([(1.0, 5.0), (2.0, 5.0), (INF, 10.0)], 0.99, 2.0),  # beyond the last bound: no more is known
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(
    buckets: list[tuple[float, float]], share: float, expected: float
) -> None:
    assert quantile(buckets, share) == pytest.approx(expected)
