"""Reader of Lotaru reports as a workload: independent tasks, and how fast machines run them.

The reports hold executions, not graphs: each execution on the reference machine (of a single file: on its
machine) is a task, those of one input set of a workflow make one workflow without edges.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.domain import Task, Workflow
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.laws.machines import REFERENCE_MACHINE, MachineLaw, Run
from stowplan.simulate.work_rules import DRAM_NOTE, SHORTEST_S, Usage, pod_shape, work_profile
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = ["workload_of"]


def workload_of(runs: Sequence[Run], name: str, source: str) -> Workload:
    """Return the workload of executions; `source` is the file or folder in messages.

    Raises:
        InvalidFile: a number is unusable.
        UnknownName: there are several machines, but not the reference machine.
    """
    machines = {run.machine for run in runs}
    reference = REFERENCE_MACHINE if len(machines) > 1 else next(iter(machines))
    law = MachineLaw.of(runs, reference=reference)
    groups: dict[str, list[Task]] = {}
    for run in runs:
        if run.machine == reference:
            tasks = groups.setdefault(f"{run.workflow}-{run.label}", [])
            tasks.append(_task(f"{run.task}-{len(tasks)}", run, law, source))
    submissions = tuple(
        Submission(0.0, Workflow(group, tuple(tasks), family=group.split("-")[0]))
        for group, tasks in groups.items()
    )
    notes = ("the reports hold no graph: the tasks of a workflow are independent", DRAM_NOTE)
    if law.machines:
        notes += (f"machine factors against {reference!r} for {', '.join(law.machines)}",)
    return Workload(name, submissions, source=source, notes=notes)


def _task(task_name: str, run: Run, law: MachineLaw, source: str) -> Task:
    try:
        usage = Usage(
            runtime_s=max(run.runtime_s, SHORTEST_S),
            mean_cores=run.mean_cores,
            read_bytes=run.read_bytes,
            written_bytes=run.written_bytes,
            memory_bytes=run.peak_memory_bytes,
        )
        return Task(
            name=task_name,
            shape=pod_shape(round(1000 * run.requested_cores), round(run.requested_memory_bytes)),
            work=work_profile(usage, machine_factors=law.machine_factors(run.template)),
            expected_s=usage.runtime_s,
            template=run.template,
            input_bytes=run.input_bytes,
            output_bytes=run.written_bytes,
        )
    except InvalidInput as error:
        raise InvalidFile(f"{source}: {run.template}: {error}") from None
