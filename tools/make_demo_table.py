"""Make the table of real workflow runs that `stowplan demo` simulates, from WfInstances.

    python tools/make_demo_table.py ../shared/data/wfinstances src/stowplan/simulate/data

Only facts are kept: task names shortened to numbers, templates, parents, seconds, mean and given cores, bytes
read and written, memory, file sizes; a cell is empty where the recording has nothing. Genomics first; one
astronomy workflow (montage) as a contrast: many short tasks. The same input gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

from stowplan.errors import StowplanError
from stowplan.simulate.files import read_text
from stowplan.simulate.workloads.recorded import RecordedTask
from stowplan.simulate.workloads.wfinstances import parse_recording

RUNS = (
    "1000genome/1000genome-chameleon-2ch-100k-001",
    "1000genome/1000genome-chameleon-4ch-250k-001",
    "epigenomics/epigenomics-chameleon-hep-1seq-100k-001",
    "epigenomics/epigenomics-chameleon-hep-3seq-100k-001",
    "srasearch/srasearch-chameleon-10a-001",
    "nfcore/atacseq-dirt02-001",
    "nfcore/chipseq-dirt02-001",
    "nfcore/cutandrun-dirt02-001",
    "nfcore/mag-dirt02-001",
    "nfcore/methylseq-dirt02-001",
    "blast/blast-chameleon-small-001",
    "bwa/bwa-chameleon-small-001",
    "montage/montage-chameleon-2mass-01d-001",
)
COLUMNS = (
    "workflow", "template", "parents", "seconds", "mean_cores", "cores", "read_bytes", "written_bytes",
    "memory_bytes", "input_bytes", "output_bytes",
)  # fmt: skip


def rows_of(run: str, tasks: tuple[RecordedTask, ...], edges: tuple[tuple[str, str], ...]) -> list[list[str]]:
    """Return one row per task; parents are positions within the workflow."""
    position = {task.name: index for index, task in enumerate(tasks)}
    parents: list[list[int]] = [[] for _ in tasks]
    for parent, child in edges:
        parents[position[child]].append(position[parent])
    rows: list[list[str]] = []
    for task, above in zip(tasks, parents, strict=True):
        numbers = (
            task.runtime_s, task.mean_cores, task.cores, task.read_bytes, task.written_bytes,
            task.memory_bytes, task.input_bytes, task.output_bytes,
        )  # fmt: skip
        template = task.template.rsplit(".", 1)[-1]
        rows.append(
            [run.rsplit("/", 1)[-1], template, " ".join(map(str, sorted(above))), *map(written, numbers)]
        )
    return rows


def written(number: float | None) -> str:
    """Return a number as short as it can be read back, empty when it is not known."""
    if number is None:
        return ""
    return str(int(number)) if float(number).is_integer() else repr(float(f"{number:.6g}"))


def main(source: Path, target: Path) -> None:
    """Read the runs under `source` and write the table into the folder `target`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for run in RUNS:
        path = source / f"{run}.json.gz"
        tasks, edges, _ = parse_recording(read_text(path), str(path))
        writer.writerows(rows_of(run, tasks, edges))
        count += len(tasks)
        print(f"{run}: {len(tasks)} tasks, {len(edges)} edges")
    packed = gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0)
    (target / "demo_workflows.csv.gz").write_bytes(packed)
    print(f"{len(RUNS)} runs, {count} tasks, {len(packed)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except StowplanError as error:
        sys.exit(str(error))
