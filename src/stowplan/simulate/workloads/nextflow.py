"""Reader of Nextflow traces: with its process graph one workflow, without it tasks that arrive as recorded.

Requests are the trace's own (`cpus`, `memory`). Where the run names its nodes, their speeds are estimated
from it: the median over tasks of run time over the median of the same process, so a task alone on the node
where it ran takes what was recorded there. The nodes make a cluster: what each was seen to hold at once is a
lower bound of what it has.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.core.domain import (
    CPU,
    HOSTNAME_LABEL,
    MACHINE_TYPE_LABEL,
    MEMORY,
    PODS,
    Hardware,
    Node,
    Resources,
    Task,
    Workflow,
)
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import file_stem
from stowplan.simulate.work_rules import (
    DRAM_NOTE,
    SHORTEST_S,
    Usage,
    imputed_memory_bytes,
    pod_shape,
    requested_memory_bytes,
    work_profile,
)
from stowplan.simulate.workloads.model import Submission, Workload
from stowplan.simulate.workloads.nextflow_graph import infer_edges, name_tasks, parse_process_graph
from stowplan.simulate.workloads.nextflow_trace import TraceRow, parse_trace

__all__ = ["node_factors", "observed_nodes", "parse", "workflow_of"]

_ENOUGH_TASKS: Final = 3
_LONG_ENOUGH_S: Final = 1.0
_PODS_PER_NODE: Final = 110


def parse(text: str, name: str, *, graph: str | None = None, graph_name: str = "") -> Workload:
    """Return the workload of one trace; `graph` is the text of its dag.html, the names are for messages.

    With a graph: one workflow at time zero. Without: one single-task workflow per row, submitted when it was.

    Raises:
        InvalidFile: the trace or the graph is unusable.
        InvalidWorkflow: the dependencies do not form a DAG.
    """
    rows, notes = parse_trace(text, name)
    imputed: Counter[str] = Counter()
    factors = node_factors([name_tasks(rows)])
    stem = file_stem(name)
    if graph is None:
        began_s = min(row.submit_s for row in rows)
        submissions = tuple(
            Submission(
                row.submit_s - began_s,
                Workflow(
                    f"{row.task_id}-{row.process.rsplit(':', 1)[-1]}",
                    (_task(row.process.rsplit(":", 1)[-1], row, factors, imputed, name),),
                    family=stem,
                ),
            )
            for row in rows
        )
        notes += ("no process graph beside the trace: every task arrives alone when it was submitted",)
    else:
        edges = infer_edges(name_tasks(rows), parse_process_graph(graph, graph_name))
        workflow = _workflow(stem, name_tasks(rows), edges, factors, imputed, name)
        submissions = (Submission(0.0, workflow),)
        notes += (f"dependencies of tasks inferred from {graph_name} and the recorded times",)
    notes += tuple(
        f"imputed: {what} for {count} of {len(rows)} tasks" for what, count in sorted(imputed.items())
    )
    if factors:
        speeds = ", ".join(f"{node} {factor:.3f}" for node, factor in sorted(factors.items()))
        notes += (f"time factors of the nodes, estimated from the trace: {speeds}",)
    return Workload(stem, submissions, source=f"{name} (Nextflow trace)", notes=(*notes, DRAM_NOTE))


def workflow_of(
    workflow_name: str,
    run: Mapping[str, TraceRow],
    before: Mapping[str, Mapping[str, bool]],
    factors: Mapping[str, float],
) -> Workflow:
    """Return one run as a workflow; arguments as `infer_edges` takes and `node_factors` returns them."""
    return _workflow(workflow_name, run, infer_edges(run, before), factors, Counter(), workflow_name)


def node_factors(runs: Sequence[Mapping[str, TraceRow]]) -> dict[str, float]:
    """Return the time factor of each node (2: twice as slow), from repeats of one workflow or a single run.

    The median over executions of run time over the typical run time of the same task (over the runs) or, in a
    single run, of the same process. Runs below a second and groups of less than three are left out; a node of
    which nothing is left has 1. Rows without node names give no factors.
    """
    groups: dict[str, list[TraceRow]] = {}
    for run in runs:
        for name, row in run.items():
            groups.setdefault(name if len(runs) > 1 else row.process, []).append(row)
    ratios: dict[str, list[float]] = {row.node: [] for rows in groups.values() for row in rows if row.node}
    for rows in groups.values():
        typical_s = statistics.median(row.runtime_s for row in rows)
        if len(rows) >= _ENOUGH_TASKS and typical_s >= _LONG_ENOUGH_S:
            for row in rows:
                if row.node:
                    ratios[row.node].append(row.runtime_s / typical_s)
    return {node: statistics.median(found) if found else 1.0 for node, found in sorted(ratios.items())}


def observed_nodes(rows: Sequence[TraceRow], name: str) -> tuple[Node, ...]:
    """Return the nodes of a trace, each with the most cores and memory requested on it at once.

    Raises:
        InvalidFile: no row names its node.
    """
    steps: dict[str, list[tuple[float, int, float, float]]] = {}
    for row in rows:
        if row.node:
            held = (row.cores, row.memory_bytes or 0.0)
            changes = steps.setdefault(row.node, [])
            changes.append((row.start_s, 1, *held))
            changes.append((row.complete_s, 0, -held[0], -held[1]))  # at one time, ends come before starts
    if not steps:
        raise InvalidFile(
            f"{name}: names no nodes; add `hostname` to trace.fields of the run to use it as a cluster"
        )
    nodes: list[Node] = []
    for node, changes in sorted(steps.items()):
        cores = memory_bytes = most_cores = most_bytes = 0.0
        for _, _, more_cores, more_bytes in sorted(changes):
            cores, memory_bytes = cores + more_cores, memory_bytes + more_bytes
            most_cores, most_bytes = max(most_cores, cores), max(most_bytes, memory_bytes)
        nodes.append(
            Node(
                node,
                Resources({CPU: round(1000 * most_cores), MEMORY: round(most_bytes), PODS: _PODS_PER_NODE}),
                labels=((HOSTNAME_LABEL, node), (MACHINE_TYPE_LABEL, node)),
                hardware=Hardware(cores=most_cores, machine_type=node),
            )
        )
    return tuple(nodes)


def _workflow(
    workflow_name: str,
    run: Mapping[str, TraceRow],
    edges: tuple[tuple[str, str], ...],
    factors: Mapping[str, float],
    imputed: Counter[str],
    where: str,
) -> Workflow:
    tasks = tuple(_task(name, row, factors, imputed, where) for name, row in run.items())
    return Workflow(workflow_name, tasks, edges, family=workflow_name.split("-", maxsplit=1)[0])


def _task(
    task_name: str, row: TraceRow, factors: Mapping[str, float], imputed: Counter[str], where: str
) -> Task:
    if row.mean_cores is None or row.peak_memory_bytes is None or row.read_bytes is None:
        imputed["one busy core and no bytes read or written (not measured)"] += 1
    if row.runtime_s < SHORTEST_S:
        imputed["a run time of 1 ms (recorded as less)"] += 1
    peak_bytes = row.peak_memory_bytes
    if not peak_bytes:
        imputed["peak memory of 256 MiB"] += 1
        peak_bytes = imputed_memory_bytes(0.0)
    request_bytes = row.memory_bytes
    if request_bytes is None:
        imputed["a memory request of the peak and 20 %"] += 1
        request_bytes = requested_memory_bytes(peak_bytes)
    try:
        usage = Usage(
            runtime_s=max(row.runtime_s, SHORTEST_S) / factors.get(row.node, 1.0),
            mean_cores=1.0 if row.mean_cores is None else row.mean_cores,
            read_bytes=row.read_bytes or 0.0,
            written_bytes=row.written_bytes or 0.0,
            memory_bytes=peak_bytes,
        )
        return Task(
            name=task_name,
            shape=pod_shape(round(1000 * row.cores), round(request_bytes)),
            work=work_profile(usage, machine_factors=tuple(sorted(factors.items()))),
            expected_s=usage.runtime_s,
            template=row.process,
            input_bytes=usage.read_bytes,
            output_bytes=usage.written_bytes,
        )
    except InvalidInput as error:
        raise InvalidFile(f"{where}: task {row.task_id} ({row.name}): {error}") from None
