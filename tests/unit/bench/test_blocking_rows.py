"""The rows of the blocking-risk benchmark, on outcomes that are known by hand."""

import numpy as np
import pytest

pytest.importorskip("torch")

from bench.blocking_risk import Judge, base_rows, best_column
from bench.harness import Row
from stowplan.core.encoder import SCHEMA
from stowplan.learn.ablations.observations import Observations

NAMES = ("transformer", "lstm")


def observations(blocked: list[float]) -> Observations:
    """One cycle per group, a workflow for each; the second feature says the opposite of what happens."""
    count = len(blocked)
    features = np.zeros((count, SCHEMA.task.width), dtype=np.float32)
    features[:, 1] = -np.nan_to_num(np.array(blocked))
    return Observations(
        groups=np.ones(count, dtype=np.int64),
        nodes=np.ones(count, dtype=np.int64),
        task_features=features,
        position=np.zeros((count, 4), dtype=np.float32),
        workflow=np.arange(count),
        blocked=np.array(blocked, dtype=np.float32),
        cluster_features=np.zeros((count, SCHEMA.cluster.width), dtype=np.float32),
        node_features=np.zeros((count, SCHEMA.node.width), dtype=np.float32),
    )


def rows_of(ours: list[float], peer: list[float], blocked: list[float]) -> dict[str, Row]:
    said = {
        name: [np.array(logits, dtype=np.float32)] * 2
        for name, logits in zip(NAMES, (ours, peer), strict=True)
    }
    return {row.name: row for row in Judge("seen", observations(blocked), said, 50).rows()}


def test_errors_are_counted_against_the_lstm_and_unknown_outcomes_are_left_out() -> None:
    blocked = [1.0, 1.0, 0.0, 0.0, float("nan")]
    rows = rows_of([1.0, -1.0, -1.0, -1.0, 9.0], [-1.0, -1.0, -1.0, 1.0, 9.0], blocked)
    assert rows["blocking/seen-transformer-accuracy"].median == pytest.approx(75.0)
    assert rows["blocking/seen-lstm-accuracy"].median == pytest.approx(25.0)
    assert rows["blocking/seen-transformer-fewer-errors"].median == pytest.approx(100.0 * (1 - 1 / 3))
    assert rows["blocking/seen-transformer-auroc"].median == pytest.approx(0.75)
    assert "blocking/seen-lstm-fewer-errors" not in rows
    low, high = (
        getattr(rows["blocking/seen-transformer-accuracy"], f"ci95_{end}") for end in ("low", "high")
    )
    assert low < 75.0 < high


def test_the_best_single_feature_is_found_with_its_sign() -> None:
    data = observations([1.0, 0.0, 1.0, 0.0, float("nan")])
    assert best_column(data) == (1, -1.0)
    rows = {row.name: row for row in base_rows(data, {"seen": data})}
    assert rows["blocking/seen-single-auroc"].median == 1.0
    assert rows["blocking/seen-single-auroc"].note == SCHEMA.task.encoded_names[1]
    assert rows["blocking/seen-share"].median == pytest.approx(50.0)
