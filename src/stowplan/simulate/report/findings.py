"""What an experiment found, in sentences: the gain, its certainty, its physical reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.experiment import ExperimentResult
from stowplan.simulate.report.model import SLOWDOWN_COLUMNS
from stowplan.simulate.report.slowdown import lost_shares
from stowplan.simulate.report.tables import describe_duration, trouble_in_words

__all__ = ["findings"]

_WORTH_NAMING_PERCENT: Final = 0.5
_MOST_REASONS: Final = 3
_REASONS: Final = {
    Cause.CPU: "CPU shared with others",
    Cause.DRAM_BANDWIDTH: "memory bandwidth shared with others",
    Cause.DRAM_LATENCY: "memory that answers later under load",
    Cause.DISK: "busy disks",
    Cause.NETWORK: "busy network links",
    Cause.PCIE: "busy PCIe roots",
    Cause.GPU: "shared GPUs",
    Cause.MACHINE: "machine types that suit them less",
    Cause.NODE: "nodes that stood still",
}


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of mean completion time under one policy; the interval is None with one seed."""

    policy: str
    baseline: str
    seeds: int
    mean_s: float
    baseline_mean_s: float
    percent: float
    low_percent: float | None
    high_percent: float | None

    @property
    def is_gain(self) -> bool:
        """Whether it is faster, and not by chance as far as can be told."""
        return self.percent < 0.0 and (self.high_percent is None or self.high_percent < 0.0)


def findings(experiment: ExperimentResult) -> list[str]:
    """Return the findings, the most important first, then what did not go to plan."""
    found: list[str] = []
    best = _best(experiment.comparison)
    if best is not None:
        found.append(_gain(best))
        if best.is_gain:
            found += _why(experiment, best)
    return [*found, *trouble_in_words(experiment)]


def _best(comparison: pl.DataFrame) -> _Change | None:
    rows = comparison.filter(
        (pl.col("metric") == "completion_mean_s") & pl.col("change_percent").is_not_null()
    ).sort("change_percent", maintain_order=True)
    if rows.is_empty():
        return None
    columns = (
        "policy", "baseline", "seeds", "mean", "baseline_mean",
        "change_percent", "low_percent", "high_percent",
    )  # fmt: skip
    return _Change(*rows.select(columns).row(0))


def _gain(best: _Change) -> str:
    interval = "in one seed"
    if best.low_percent is not None and best.high_percent is not None:
        interval = (
            f"95 % interval {best.low_percent:+.1f} to {best.high_percent:+.1f} %, {best.seeds} seeds"
        ).replace("-", "−")
    change = f"{best.percent:+.1f} %".replace("-", "−")
    means = (
        f"{describe_duration(best.mean_s)} under {best.policy}, "
        f"{describe_duration(best.baseline_mean_s)} under {best.baseline}"
    )
    if best.percent >= 0.0:
        return (
            f"No policy completes workflows sooner than {best.baseline}; the closest, {best.policy}, "
            f"changes mean completion time by {change} ({interval})."
        )
    if not best.is_gain:
        return (
            f"No policy is beyond doubt better than {best.baseline}: the best, {best.policy}, "
            f"changes mean completion time by {change} ({interval})."
        )
    return f"{best.policy} completes workflows soonest: mean completion time {change} ({interval}); {means}."


def _why(experiment: ExperimentResult, best: _Change) -> list[str]:
    shares = lost_shares(experiment.result.tasks, "policy")
    ours, theirs = (
        shares.filter(pl.col("policy") == policy).row(0, named=True)
        for policy in (best.policy, best.baseline)
    )
    saved = sorted(
        ((theirs[column] - ours[column], cause, column) for cause, column in SLOWDOWN_COLUMNS.items()),
        key=lambda item: -item[0],
    )
    reasons = [
        f"{_plain(ours[column])} % instead of {_plain(theirs[column])} % to {_REASONS[cause]}"
        for points, cause, column in saved[:_MOST_REASONS]
        if points >= _WORTH_NAMING_PERCENT
    ]
    ours_s, theirs_s = (
        1.0 + sum(row[c] for c in SLOWDOWN_COLUMNS.values()) / 100.0 for row in (ours, theirs)
    )
    shorter_percent = 100.0 * (ours_s / theirs_s - 1.0)
    words: list[str] = []
    if reasons:
        words.append(f"Why: of the time that they take undisturbed, tasks lose {', '.join(reasons)}.")
    if shorter_percent > best.percent / 2.0:
        beginning = "Most of the gain comes" if reasons else "Why: the gain comes"
        words.append(
            f"{beginning} from the order in which tasks run: tasks themselves take "
            f"{_how_long(shorter_percent)}, but those that hold up their workflow run sooner."
        )
    return [" ".join(words)] if words else []


def _how_long(change_percent: float) -> str:
    if abs(change_percent) < 0.05:
        return "as long as before"
    return f"{abs(change_percent):.1f} % {'less' if change_percent < 0.0 else 'more'} time"


def _plain(percent: float) -> str:
    return f"{percent:.1f}".replace("-", "−")
