"""Recorded workflow executions (WfFormat 1.5) as real Argo workflows: the same graph, real loads.

A recording says how long each task took, how many cores it kept busy and how many bytes it moved, on machines
of which this test cluster is a small part. So time and cores are scaled down, by the same rule for all tasks:

* Time: `factor * recorded ** exponent` seconds, between `least_s` and `most_s`. An exponent below one keeps
  the order of durations and draws their range together: families of second-long and of hour-long tasks fit
  into one batch of minutes.
* Cores: one core of the recording is `cores_per_core` here, in the request and in the work.

What a task does in that time follows the recording by the simulator's own rules (`work_rules`): it reads,
then computes, then writes, each for its share of the time. Reads and writes go around the page cache, to a
disk that a real node throttles; bytes that the recorded disk cannot have delivered come from the page cache;
a part of the computation is memory traffic; what was waited with nothing to read or write is waited. All else
is an amount of work, not a time: what slows it down, here or there, shows. Amounts are for a reference
machine, the constants below; on another machine they take another time.

One template per program, whose amounts are arguments: tasks of one program share a template, as they do in a
workflow that a person writes. Requests are what such a person asks for: whole cores of the mean use (scaled),
which is the limit too, peak memory and some headroom (scaled); the same whoever schedules.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stowplan.core.domain import Workflow
from stowplan.simulate.work_rules import (
    Usage,
    imputed_memory_bytes,
    requested_cpu_milli,
    requested_memory_bytes,
    work_profile,
)
from stowplan.simulate.workloads.recorded import RecordedTask
from stowplan.simulate.workloads.wfinstances import parse_recording
from testbed.spec import Json

CPU_UNITS_PER_S = 220  # `load cpu` on one core of the reference machine, a Xeon of 2025
TRIAD_BYTES_PER_S = 25e9  # `load bandwidth` there, in its caches
PAGE_CACHE_BYTES_PER_S = 15e9
DISK_BYTES_PER_S = 20 << 20  # a real node's throttle: the disk that reads and writes are sized for
DISK_FILE_BYTES = 4 << 20
PAGE_CACHE_FILE_BYTES = 8 << 20
LEAST_WORKING_SET_BYTES = 8 << 20
PAGE_BYTES = 4096
MOST_CACHED_SHARE = 0.5  # of the computation's time, which reads from the page cache can take
TRIAD_SHARE = 0.1  # of the computation; no recording says

LONGEST_NAME = 40  # a pod is named after its workflow and its program
LEAST_MEMORY_BYTES = 48 << 20
MEMORY_STEP_BYTES = 16 << 20

SCRIPT = f"""\
set -e
disk() {{
  [ $2 = 0 ] || load disk --$1 --direct --file /tmp/data --bytes {DISK_FILE_BYTES} --work-bytes $2
}}
disk read $1
[ $2 = 0 ] || load page-cache --file /tmp/cached --bytes {PAGE_CACHE_FILE_BYTES} --work-bytes $2
[ $3 = 0 ] || sleep $3
[ $5 = 0 ] || load bandwidth --bytes $4 --work-bytes $5 --threads $7
[ $6 = 0 ] || load cpu --work $6 --threads $7
disk write $8
"""
ARGUMENTS = (
    "read-bytes",
    "cached-bytes",
    "waited-seconds",
    "working-set-bytes",
    "memory-traffic-bytes",
    "cpu-units",
    "threads",
    "written-bytes",
)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much smaller the test cluster is than the machines of the recordings.

    Attributes:
        factor: Seconds here of a task that took one second there.
        exponent: How ratios of durations come over: 1 keeps them, 0.5 takes their roots.
        least_s: Shortest task here.
        most_s: Longest task here.
        cores_per_core: Cores here for one core there.
        memory_share: Bytes requested here for one byte there.
    """

    factor: float = 1.0
    exponent: float = 0.35
    least_s: float = 1.0
    most_s: float = 12.0
    cores_per_core: float = 0.06
    memory_share: float = 1 / 16

    def seconds(self, recorded_s: float) -> float:
        """How long a task is to take here, on a full node."""
        return min(max(self.factor * recorded_s**self.exponent, self.least_s), self.most_s)


def convert(text: str, name: str, scale: Scale, image: str) -> Json:
    """The Argo workflow of a recording, which has no namespace and names no scheduler.

    Its name is drawn when it is submitted, as for whatever is run again and again.

    Args:
        text: The recording, as its file has it.
        name: What its name begins with, in the form that Kubernetes wants.
        scale: How much smaller all is here.
        image: The full name of the image `load`.

    Raises:
        InvalidFile: The text is no complete recording.
        InvalidWorkflow: Its graph is none that can run.
    """
    recorded, edges, _ = parse_recording(text, name)
    return convert_tasks(recorded, edges, name, scale, image)


def convert_tasks(
    recorded: Sequence[RecordedTask], edges: Sequence[tuple[str, str]], name: str, scale: Scale, image: str
) -> Json:
    """The same of tasks that were read already, and the pairs (parent, child) of their names.

    Raises:
        InvalidWorkflow: The graph is none that can run.
    """
    _check_graph(name, recorded, edges)
    tasks = _names(task.name for task in recorded)
    programs = _names({task.template: None for task in recorded})
    needs: dict[str, list[str]] = {task.name: [] for task in recorded}
    for parent, child in edges:
        needs[child].append(tasks[parent])
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{name}-"},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {
                    "name": "main",
                    "dag": {
                        "tasks": [
                            _task(tasks[task.name], programs[task.template], needs[task.name], task, scale)
                            for task in recorded
                        ]
                    },
                },
                *(
                    _program(name, [task for task in recorded if task.template == program], scale, image)
                    for program, name in programs.items()
                ),
            ],
        },
    }


def _check_graph(name: str, recorded: Sequence[RecordedTask], edges: Sequence[tuple[str, str]]) -> None:
    imputed: Counter[str] = Counter()
    Workflow(name=name, tasks=tuple(task.task(imputed) for task in recorded), edges=tuple(edges))


def _task(name: str, program: str, needs: list[str], recorded: RecordedTask, scale: Scale) -> Json:
    amounts = zip(ARGUMENTS, _amounts(recorded, scale), strict=True)
    return {
        "name": name,
        "template": program,
        **({"dependencies": needs} if needs else {}),
        "arguments": {
            "parameters": [{"name": argument, "value": str(amount)} for argument, amount in amounts]
        },
    }


def _program(name: str, tasks: list[RecordedTask], scale: Scale, image: str) -> Json:
    """The template of a program: its requests cover each of its tasks."""
    cpu_milli = max(requested_cpu_milli(_mean_cores(task)) for task in tasks) * scale.cores_per_core
    peak_bytes = max(requested_memory_bytes(_peak_bytes(task)) for task in tasks) * scale.memory_share
    memory_bytes = max(LEAST_MEMORY_BYTES, math.ceil(peak_bytes / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES)
    return {
        "name": name,
        "inputs": {"parameters": [{"name": argument} for argument in ARGUMENTS]},
        "container": {
            "image": image,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", SCRIPT, "task"],
            "args": [f"{{{{inputs.parameters.{argument}}}}}" for argument in ARGUMENTS],
            "resources": {
                "requests": {"cpu": f"{cpu_milli:.0f}m", "memory": f"{memory_bytes >> 20}Mi"},
                "limits": {"cpu": f"{cpu_milli:.0f}m"},
            },
        },
    }


def _amounts(recorded: RecordedTask, scale: Scale) -> tuple[float, ...]:
    """What the task does here, in the order of ARGUMENTS."""
    usage = Usage(
        runtime_s=recorded.runtime_s,
        mean_cores=_mean_cores(recorded),
        read_bytes=recorded.input_bytes if recorded.read_bytes is None else recorded.read_bytes,
        written_bytes=recorded.output_bytes if recorded.written_bytes is None else recorded.written_bytes,
    )
    phases = work_profile(usage).phases
    alone_s = sum(phase.work_s for phase in phases)
    shrink = scale.seconds(alone_s) / alone_s
    read_s = sum(phase.work_s for phase in phases if phase.disk_read_bytes_per_s)
    write_s = sum(phase.work_s for phase in phases if phase.disk_write_bytes_per_s)
    from_disk = sum(
        phase.work_s * (phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s) for phase in phases
    )
    cached_bytes = usage.read_bytes + usage.written_bytes - from_disk
    (compute,) = (
        phase for phase in phases if not (phase.disk_read_bytes_per_s or phase.disk_write_bytes_per_s)
    )
    busy_s = compute.work_s * compute.cpu_cores * scale.cores_per_core * shrink
    return (
        _pages(read_s * shrink * DISK_BYTES_PER_S),
        # It costs processor time, which the computation's part already has in it.
        round(max(0.0, min(cached_bytes * shrink, MOST_CACHED_SHARE * busy_s * PAGE_CACHE_BYTES_PER_S))),
        round(compute.work_s * max(0.0, 1.0 - compute.cpu_cores) * shrink, 2) or 0,
        max(LEAST_WORKING_SET_BYTES, round(_peak_bytes(recorded) * scale.memory_share)),
        round(busy_s * TRIAD_SHARE * TRIAD_BYTES_PER_S),
        round(busy_s * (1 - TRIAD_SHARE) * CPU_UNITS_PER_S),
        max(1, math.ceil(compute.cpu_cores - 0.05)),
        _pages(write_s * shrink * DISK_BYTES_PER_S),
    )


def _mean_cores(recorded: RecordedTask) -> float:
    if recorded.mean_cores is not None:
        return recorded.mean_cores
    return 1.0 if recorded.cores is None else recorded.cores


def _peak_bytes(recorded: RecordedTask) -> float:
    return recorded.memory_bytes or imputed_memory_bytes(recorded.input_bytes)


def _pages(amount_bytes: float) -> int:
    return round(amount_bytes / PAGE_BYTES) * PAGE_BYTES


def _names(originals: Iterable[str]) -> dict[str, str]:
    """Names as Argo and Kubernetes want them, one for each original: unlike ones stay unlike."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for original in originals:
        last = original.rpartition(".")[2].lower()  # NFCORE_X.X.ALIGN: the last part is the program
        plain = re.sub(r"[^a-z0-9]+", "-", last)[-LONGEST_NAME:].strip("-") or "task"
        name = plain if plain[0].isalpha() else f"t-{plain}"
        number = 1
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        names[original] = name
    return names
