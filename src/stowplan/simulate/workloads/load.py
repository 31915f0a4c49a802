"""From a path to a workload: the two functions that the command line calls.

A folder is read as all of its files of one format, for example every run of a workflow family.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import data_files, file_stem, read_text
from stowplan.simulate.formats import FORMATS, Format, Use, recognise
from stowplan.simulate.laws.machines import parse_runs
from stowplan.simulate.workloads import lotaru, manifest, nextflow, openb, tpch, tpch_batch, wfinstances
from stowplan.simulate.workloads.model import Workload

__all__ = ["detect", "load_workload", "load_workloads"]

_Loader = Callable[[str, Path, tuple[Path, ...]], tuple[Workload, ...]]


def _load_nextflow(text: str, path: Path, _: tuple[Path, ...]) -> tuple[Workload, ...]:
    graph = _graph_beside(path)
    if graph is None:
        return (nextflow.parse(text, str(path)),)
    return (nextflow.parse(text, str(path), graph=read_text(graph), graph_name=str(graph)),)


def _graph_beside(path: Path) -> Path | None:
    """Return the process graph beside a trace: of the same run by its name, else the first."""
    graphs = sorted(file for file in path.parent.glob("*dag*.html*") if file.is_file())
    same_run = [file for file in graphs if file.name.split("-")[0] == path.name.split("-")[0]]
    return next(iter(same_run or graphs), None)


def _load_lotaru(text: str, path: Path, _: tuple[Path, ...]) -> tuple[Workload, ...]:
    return (lotaru.workload_of(parse_runs(text, str(path)), file_stem(str(path)), str(path)),)


def _load_manifest(text: str, path: Path, within: tuple[Path, ...]) -> tuple[Workload, ...]:
    inner = (*within, path.resolve())

    def load(source: Path, instance: int) -> Workload:
        if source.resolve() in inner:
            raise InvalidFile(
                f"{path}: takes workflows from {source}, which takes them from here; break the circle"
            )
        return _instance(_load(source, inner), source, instance)

    return (manifest.parse(text, path, load),)


_LOADERS: Final[dict[str, _Loader]] = {
    "stowplan-workload": _load_manifest,
    "wfformat": lambda text, path, _: (wfinstances.parse(text, str(path)),),
    "nextflow-trace": _load_nextflow,
    "tpch-stages": lambda text, path, _: (tpch.parse(text, str(path)),),
    "tpch-batch": lambda text, path, _: tpch_batch.parse(text, str(path)),
    "openb-pods": lambda text, path, _: (openb.parse_pods(text, str(path)),),
    "lotaru": _load_lotaru,
}

_NUMBERED: Final = re.compile(r"(?P<name>.+)#(?P<instance>\d{1,9})", re.ASCII)
_REPEATS: Final = ("nextflow-trace", "tpch-batch")
"""Formats of which several files are alternatives to each other (runs, batches), not parts of one
workload."""


def detect(path: Path | str) -> Format:
    """Return the format of a file, or the one that the files of a folder share; seen from content.

    Raises:
        InvalidFile: the path is missing or unreadable, of no known format, or a folder without files or of
        several formats.
    """
    path = Path(path)
    if not path.is_dir():
        return recognise(read_text(path), str(path))
    found = {file: recognise(read_text(file), str(file)) for file in data_files(path)}
    return _shared_format(path, found)


def load_workloads(path: Path | str) -> tuple[Workload, ...]:
    """Return every workload that a file or folder holds: one, or one per instance of a batch.

    The submissions are at the recorded times, or at time zero where none were recorded; `Workload.at_times`
    moves them. A folder gives one workload with the workflows of all its files, except that runs of a
    Nextflow workflow and TPC-H batches are alternatives: they give one workload each.

    Raises:
        InvalidFile: the path is missing, unreadable, truncated, of no known format, of another version, or
        cannot be a workload; the message names the file, what is wrong and what to do.
        InvalidWorkflow: a workflow in it is empty, has a cycle or a dangling edge.
        InvalidQuantity: a number in it is unusable.
    """
    return _load(Path(path), ())


def load_workload(path: Path | str, *, instance: int | None = None) -> Workload:
    """Return the workload of a file or folder; where it holds several, the one numbered `instance`.

    Without `instance` the number is taken from the path (`batch.json.gz#3`), else it is the first, and a note
    of the workload says so.

    Raises:
        InvalidInput: there is no such instance.
        InvalidFile, InvalidWorkflow, InvalidQuantity: as `load_workloads`.
    """
    path = Path(path)
    numbered = _NUMBERED.fullmatch(path.name)
    if instance is None and numbered is not None and not path.exists():
        path, instance = path.with_name(numbered["name"]), int(numbered["instance"])
    return _instance(load_workloads(path), path, instance)


def _instance(workloads: tuple[Workload, ...], path: Path, instance: int | None) -> Workload:
    chosen = 0 if instance is None else instance
    if not 0 <= chosen < len(workloads):
        raise InvalidInput(f"{path}: has no instance {chosen}; it has {len(workloads)}, counted from 0")
    workload = workloads[chosen]
    if len(workloads) == 1:
        return workload
    note = f"instance {chosen} of {len(workloads)} in {path}; add #NUMBER to the path for another"
    return replace(workload, notes=(note, *workload.notes))


def _load(path: Path, within: tuple[Path, ...]) -> tuple[Workload, ...]:
    """Load a path; `within` are the files that it is being loaded for."""
    if not path.is_dir():
        text = read_text(path)
        return _parse(text, path, recognise(text, str(path)), within)
    texts = {file: read_text(file) for file in data_files(path)}
    found = {file: recognise(text, str(file)) for file, text in texts.items()}
    shared = _shared_format(path, found)
    if shared.name == "lotaru":  # several machines make factors, so the files belong together
        runs = [run for file, text in texts.items() for run in parse_runs(text, str(file))]
        return (lotaru.workload_of(runs, path.name, str(path)),)
    parts = [
        workload
        for file, text in texts.items()
        if found[file].use is not Use.NOTHING
        for workload in _parse(text, file, found[file], within)
    ]
    return tuple(parts) if shared.name in _REPEATS else (_joined(path, parts),)


def _parse(text: str, path: Path, found: Format, within: tuple[Path, ...]) -> tuple[Workload, ...]:
    if Use.WORKLOAD not in found.use:
        raise InvalidFile(f"{path}: is {found.holds}, not a workload; {found.advice}")
    return _LOADERS[found.name](text, path, within)


def _shared_format(folder: Path, found: dict[Path, Format]) -> Format:
    names = sorted({item.name for item in found.values() if item.use is not Use.NOTHING})
    if len(names) > 1:
        raise InvalidFile(
            f"{folder}: holds files of several formats ({', '.join(names)}); name a folder with one, or a "
            "single file"
        )
    if not names:
        first = next(iter(found.values()))
        raise InvalidFile(f"{folder}: holds only {first.holds}; {first.advice}")
    return FORMATS[names[0]]


def _joined(folder: Path, parts: list[Workload]) -> Workload:
    """Join workloads; when workflows share a name, the name of their file goes before it."""
    names = [submission.workflow.name for part in parts for submission in part.submissions]
    is_unique = len(set(names)) == len(names)
    submissions = tuple(
        submission if is_unique else submission.prefixed(part.name)
        for part in parts
        for submission in part.submissions
    )
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Workload(folder.name, submissions, source=str(folder), notes=notes)
