"""Fits must find what made the numbers."""

import numpy as np
import pytest

from stowplan.core.physics.fits import DriftModel, StepTimeModel, fit_drift, fit_sharing_curve, fit_step_time
from stowplan.core.physics.gpu import shared_gpu_speed
from stowplan.errors import InvalidInput

MODEL = StepTimeModel(
    compute_fixed_s=0.05,
    compute_per_sample_s=0.002,
    sync_node_s=0.04,
    sync_node_per_gpu_s=0.006,
    sync_cluster_s=0.2,
    sync_cluster_per_gpu_s=0.01,
    gamma=2.0,
)


def test_a_step_by_hand() -> None:
    one, two, far = MODEL.step_time_s(np.array([1.0, 4.0, 4.0]), np.array([1.0, 1.0, 2.0]), np.full(3, 25.0))
    assert one == pytest.approx(0.1)
    assert two == pytest.approx(np.hypot(0.1, 0.052))
    assert far == pytest.approx(np.hypot(0.1, 0.22))


def test_the_step_time_is_found_again_with_noise_and_predicts_what_it_has_not_seen() -> None:
    random = np.random.default_rng(4)
    gpus = random.integers(1, 17, 400).astype(float)
    nodes = np.minimum(random.integers(1, 5, 400).astype(float), gpus)
    batch = random.choice([16.0, 32.0, 64.0, 128.0], 400)
    truth = MODEL.step_time_s(gpus, nodes, batch)
    noisy = truth * np.exp(random.normal(0.0, 0.03, 400))
    seen = np.arange(400) < 250
    fitted = fit_step_time(gpus[seen], nodes[seen], batch[seen], noisy[seen], random=np.random.default_rng(0))
    told = fitted.step_time_s(gpus[~seen], nodes[~seen], batch[~seen])
    assert np.mean(np.abs(told - truth[~seen]) / truth[~seen]) < 0.015


def test_too_few_or_impossible_step_times_are_refused() -> None:
    few = np.ones(3)
    with pytest.raises(InvalidInput, match="3 step times"):
        fit_step_time(few, few, few, few, random=np.random.default_rng(0))
    many = np.ones(20)
    with pytest.raises(InvalidInput, match="above 0"):
        fit_step_time(many, many, many, np.zeros(20), random=np.random.default_rng(0))


def test_the_sharing_curve_falls_even_where_a_class_does_not() -> None:
    knots, speeds = fit_sharing_curve(
        np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.array([1.02, 0.9, 0.94, 0.8, 0.6]), (0.2, 0.4, 0.6, 0.8)
    )
    assert knots.tolist() == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert speeds == pytest.approx([1.0, 0.92, 0.92, 0.8, 0.6])
    assert shared_gpu_speed(0.8, knots, speeds) == pytest.approx(0.7)
    with pytest.raises(InvalidInput, match="class 1"):
        fit_sharing_curve(np.array([0.1, 0.9]), np.ones(2), (0.2, 0.4))


def test_drift_is_told_by_share_and_range_and_drawn_by_it() -> None:
    factors = np.concatenate([np.full(90, 1.0), np.linspace(0.5, 0.8, 10)])
    model = fit_drift(factors)
    assert model.degraded_share == pytest.approx(0.1)
    assert 0.5 < model.degraded_low < model.degraded_high < 0.8
    assert model.normal_spread == 0.0
    flips = model.flips(np.random.default_rng(1), until_s=1e6, degraded_mean_s=100.0)
    down_s = np.diff(flips[: flips.shape[0] // 2 * 2, 0])[::2].sum()
    assert down_s / 1e6 == pytest.approx(0.1, abs=0.02)
    never = DriftModel(degraded_share=0.0, degraded_low=1.0, degraded_high=1.0, normal_spread=0.0)
    assert never.flips(np.random.default_rng(1), until_s=1e6, degraded_mean_s=1.0).shape == (0, 2)
    with pytest.raises(InvalidInput, match="above 0"):
        fit_drift(np.zeros(3))
