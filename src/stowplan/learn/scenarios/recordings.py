"""Recorded workflows to learn from, split by family: what is tested on is never trained on.

A policy that has seen a workflow's graph and durations could remember them; one that is only ever tested on
families that it has not seen cannot. Within the families of training, validation draws other seeds
(`draw.seed_of`), so that clusters, arrivals and mixes differ too.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Final

from stowplan.core.domain import Workflow
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.data.demo import load_demo_recordings
from stowplan.simulate.files import data_files
from stowplan.simulate.workloads import load_workload

__all__ = ["TEST_FAMILIES", "TRAINING_FAMILIES", "Split", "load_recordings"]

TRAINING_FAMILIES: Final = (
    "1000genome",
    "srasearch",
    "soykb",
    "blast",
    "montage",
    "cycles",
    "seismology",
)
"""Folders of WfInstances that training and validation draw from."""
TEST_FAMILIES: Final = ("nfcore", "epigenomics", "bwa")
"""Folders of WfInstances that only evaluation may draw from."""
_NFCORE: Final = ("atacseq", "chipseq", "cutandrun", "mag", "methylseq")
"""Families of the demo's table that are nf-core pipelines."""


class Split(StrEnum):
    """What scenarios are drawn for; each has seeds of its own."""

    TRAINING = "training"
    VALIDATION = "validation"
    TEST = "test"

    @property
    def families(self) -> tuple[str, ...]:
        """The workflow families that may be drawn."""
        return TEST_FAMILIES if self is Split.TEST else TRAINING_FAMILIES


def load_recordings(folder: Path | None, split: Split) -> dict[str, tuple[Workflow, ...]]:
    """Return the recorded workflows of a split by family.

    Args:
        folder: WfInstances, one folder for each family; None: the few recordings that come with Stowplan.
        split: which families.

    Raises:
        InvalidFile: the folder has no family of the split, or a file in it cannot be read.
        InvalidInput: a file among those of training is of a family that is kept for testing.
    """
    if folder is None:
        return _from_table(split)
    found: dict[str, tuple[Workflow, ...]] = {}
    for family in split.families:
        if (folder / family).is_dir():
            files = data_files(folder / family)
            workflows = tuple(s.workflow for file in files for s in load_workload(file).submissions)
            found[family] = workflows
            _check(family, workflows, folder / family, split)
    if not found:
        raise InvalidFile(
            f"{folder}: has no folder of a {split} family; it must hold some of {', '.join(split.families)}"
        )
    return found


def _check(family: str, workflows: tuple[Workflow, ...], folder: Path, split: Split) -> None:
    """Refuse recordings that were put into the wrong folder."""
    if split is Split.TEST:
        return
    for workflow in workflows:
        if workflow.family != family:
            raise InvalidInput(
                f"{folder}: holds {workflow.name!r}, which is of family {workflow.family!r}, not {family!r}; "
                "move it where it belongs, so that no test family is trained on"
            )


def _from_table(split: Split) -> dict[str, tuple[Workflow, ...]]:
    found: dict[str, tuple[Workflow, ...]] = {}
    imputed: Counter[str] = Counter()
    for name, (tasks, edges) in load_demo_recordings().items():
        own = name.split("-")[0]
        family = "nfcore" if own in _NFCORE else own
        if family in split.families:
            built = tuple(task.task(imputed) for task in tasks)
            found[family] = (*found.get(family, ()), Workflow(name, built, edges, family=own))
    return found
