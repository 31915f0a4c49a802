"""128 genomics workflows on 32 machines: what is submitted, and on which two clusters.

The workflows are recorded executions (WfInstances) of three families that no policy is trained on: nf-core
pipelines, epigenome mapping and BWA. They arrive as a Poisson stream so dense that under kube-scheduler's
rules about `LOAD` of the breathing cluster's cores are requested as long as workflows arrive.

Two things no recording holds are added, the same for every policy and every seed:

* How much slower each program is on each machine type: the factors of a program that Lotaru measured on all
  of them, one such program for each of ours, picked by a digest of its name. They come as a vector, so that
  what is slow on one old machine is slow on the other.
* How much a program depends on memory. For programs that align or assemble, 40 % of the time alone is exposed
  memory latency at 3 GB/s a busy core: with HBM2 in place of DDR4 Bowtie2, BWA-MEM and HISAT2 run 1.68 times
  as fast (Qureshi et al., IEEE Transactions on Computers 2020, doi 10.1109/TC.2020.3041402), which takes an
  exposed share of at least 40 %. For those that sort, merge, count or mark, 25 % and 2 GB/s, a proposal
  without data; for all others what `work_rules` imputes.
"""

import hashlib
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from stowplan.core.domain import Task, Workflow, WorkProfile
from stowplan.errors import InvalidFile
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.clusters.manifest import parse
from stowplan.simulate.files import read_text
from stowplan.simulate.laws import MachineLaw, load_law
from stowplan.simulate.workloads import Poisson, Submission, Workload, load_workload

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER: Final = Path(__file__).parent
WORKFLOWS: Final = 128
LOAD: Final = 0.85
MEAN_GAP_S: Final = 28.0
"""Mean seconds between two arrivals, by which the load is as said."""
FAMILIES: Final = ("nfcore", "epigenomics", "bwa")
BOUND_BY_MEMORY: Final = re.compile(
    r"(?i)bwa|bowtie|bismark|star|hisat|salmon|map$|map_|align|blast|spades|megahit|unicycler|busco|prokka"
)
USES_MEMORY: Final = re.compile(r"(?i)sort|merge|dup|picard|deeptools|count|split|index|macs|genomecov|quast")
ALIGNING: Final = (0.4, 3.0e9)  # exposed share of latency, bytes/s per busy core
MOVING: Final = (0.25, 2.0e9)


def cluster(name: str) -> Cluster:
    """The cluster of a file beside this module: `breathing` or `clean`.

    Raises:
        InvalidFile: There is none of that name, or the public data are not there.
    """
    path = FOLDER / f"{name}.yaml"
    return parse(read_text(path).replace("$STOWPLAN_DATA", str(DATA)), path, load_law)


@cache
def workload() -> Workload:
    """The workflows, each instance as often as the others, with the arrivals to be drawn by seed.

    Raises:
        InvalidFile: The public data are not there.
    """
    files = [
        file for family in FAMILIES for file in sorted((DATA / "wfinstances" / family).glob("*.json.gz"))
    ]
    law = load_law(DATA / "lotaru" / "traces")
    if not isinstance(law, MachineLaw):
        raise InvalidFile(f"{DATA / 'lotaru' / 'traces'} holds no machine law; it must hold Lotaru's reports")
    recorded = [load_workload(file).submissions[0].workflow for file in files]
    submissions = tuple(
        Submission(0.0, _submitted(recorded[number % len(recorded)], number, law))
        for number in range(WORKFLOWS)
    )
    return Workload("genomics", submissions, source="WfInstances and Lotaru", arrivals=Poisson(MEAN_GAP_S))


def _submitted(workflow: Workflow, number: int, law: MachineLaw) -> Workflow:
    tasks = tuple(_on_these_machines(task, law) for task in workflow.tasks)
    return replace(workflow, name=f"{workflow.name}/{number}", tasks=tasks)


def _on_these_machines(task: Task, law: MachineLaw) -> Task:
    name = program(task.template)
    share, bytes_per_core_s = _memory(name)
    phases = task.work.phases
    if bytes_per_core_s:
        phases = tuple(
            replace(phase, dram_bytes_per_s=bytes_per_core_s * phase.cpu_cores, latency_share=share)
            if not (phase.disk_read_bytes_per_s or phase.disk_write_bytes_per_s)
            else phase
            for phase in phases
        )
    work: WorkProfile = replace(task.work, phases=phases, machine_factors=factors(name, law))
    return replace(task, work=work, template=name)


def _memory(name: str) -> tuple[float, float]:
    if BOUND_BY_MEMORY.search(name):
        return ALIGNING
    return MOVING if USES_MEMORY.search(name) else (0.0, 0.0)


def program(template: str) -> str:
    """The program that a recorded task ran: the last part of a dotted name, the first of a numbered one."""
    last = template.rpartition(".")[2]
    first, _, rest = last.partition("_")
    return first if rest.startswith(f"{first}_") else last


def factors(name: str, law: MachineLaw) -> tuple[tuple[str, float], ...]:
    """The time factor of a program on each machine type: those of a program that was measured on all."""
    whole = sorted(template for template, by in law.factors.items() if len(by) == len(law.machines))
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return law.machine_factors(whole[digest % len(whole)])
