"""What a report is made from: the frames of an experiment and the facts about the run.

The report reads frames by column name only, so a result that was written to Parquet can be reported again
later. The columns that it needs are listed here and checked once, at the door; every chart may then rely on
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from stowplan.core.physics.vocabulary import Cause
from stowplan.errors import InvalidInput

__all__ = ["CAUSE_WORDS", "SLOWDOWN_COLUMNS", "ReportData"]

SLOWDOWN_COLUMNS: Final[Mapping[Cause, str]] = {cause: f"slow_{cause.name.lower()}_s" for cause in Cause}
"""Column of `tasks` with the seconds that a cause took (negative: gave)."""

CAUSE_WORDS: Final[Mapping[Cause, str]] = {
    Cause.CPU: "CPU shared",
    Cause.DRAM_BANDWIDTH: "memory bandwidth",
    Cause.DRAM_LATENCY: "memory latency",
    Cause.DISK: "disk",
    Cause.NETWORK: "network",
    Cause.PCIE: "PCIe",
    Cause.GPU: "GPU shared",
    Cause.MACHINE: "machine type",
    Cause.NODE: "node stood still",
}

_TASK_COLUMNS: Final = (
    "policy", "seed", "workflow", "family", "task", "template", "node", "status",
    "started_s", "finished_s", "alone_s", *SLOWDOWN_COLUMNS.values(),
)  # fmt: skip
_WORKFLOW_COLUMNS: Final = ("policy", "seed", "workflow", "family", "completion_s")
_USAGE_COLUMNS: Final = (
    "policy", "seed", "resource", "time_s", "length_s", "requested", "used", "allocatable",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """The frames, and which policy the others are compared with.

    Attributes:
        tasks: one row per attempt of a task. Drawn are those with `node`, `started_s` and `finished_s`; those
            with `status` "done" have `slow_*_s`, the seconds that each cause took of `finished_s` −
            `started_s`, beyond `alone_s` (undisturbed on the reference machine).
        workflows: one row per workflow; `completion_s` is null where it did not complete.
        usage: mean `requested` and `used` of `allocatable` from `time_s` on for `length_s`, per `policy`,
            `seed` and `resource`, in its own unit; null: not known, or not something that is requested.
        baseline: the policy that the others are compared with.
        nodes: all nodes in the order of the cluster, so that idle ones show too; empty: those that ran
            something.
    """

    tasks: pl.DataFrame
    workflows: pl.DataFrame
    usage: pl.DataFrame
    baseline: str
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the columns.

        Raises:
            InvalidInput: a frame lacks a column, there is no workflow, or the baseline was not run.
        """
        for name, frame, needs in (
            ("tasks", self.tasks, _TASK_COLUMNS),
            ("workflows", self.workflows, _WORKFLOW_COLUMNS),
            ("usage", self.usage, _USAGE_COLUMNS),
        ):
            missing = [column for column in needs if column not in frame.columns]
            if missing:
                raise InvalidInput(
                    f"frame {name!r} has no column {missing[0]!r}; it has {', '.join(frame.columns)}"
                )
        if self.workflows.is_empty():
            raise InvalidInput("the result has no workflow; there is nothing to report")
        if self.baseline not in self.policies:
            raise InvalidInput(
                f"baseline {self.baseline!r} is not among the policies {', '.join(self.policies)}"
            )

    @property
    def policies(self) -> list[str]:
        """The policies in the order in which they were run."""
        return self.workflows["policy"].unique(maintain_order=True).to_list()

    @property
    def first_seed(self) -> int:
        """The seed of the run that is shown in detail."""
        return int(self.workflows["seed"][0])
