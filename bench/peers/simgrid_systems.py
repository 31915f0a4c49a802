"""Random systems that both SimGrid and our kernel run to the end, and how far their finish times are apart.

Two kinds of system, as JSON so that SimGrid's own interpreter can read them (`simgrid_solver.py`):

* bmf: tasks on one node need a core and up to four buses at once; cores may be too few, tasks may arrive
  late.
* maxmin: flows over random routes of links, arriving late or not.

SimGrid's bmf solver gives up on a few systems in a thousand ("Unable to find a BMF allocation"), and now and
then its lazy update keeps a stale rate, so that it contradicts its own answer for the same state asked
afresh.
`verdict` tells these apart from a difference that is ours: it replays our run and asks SimGrid anew at each
of our events.
"""

import json
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stowplan.simulate.kernel import (
    Flow,
    KernelNodes,
    KernelProfiles,
    TaskPhase,
    TaskStarts,
    Wake,
)
from stowplan.simulate.kernel.kernel import FluidKernel

__all__ = [
    "AGREE",
    "Case",
    "difference",
    "kernel_finish_s",
    "random_bmf",
    "random_maxmin",
    "simgrid_finish_s",
    "verdict",
]

Case = dict[str, Any]
AGREE = 1e-6
"""Relative difference of finish times that counts as equal."""
SOLVER = Path(__file__).parent / "simgrid_solver.py"
_FAST = 1e12
"""Bytes per second of work: a flow that is never held back by itself."""


def random_bmf(random: np.random.Generator) -> Case:
    """Draw a bmf system: 2 to 29 tasks, 1 to 4 buses, cores enough or scarce, arrivals at once or spread."""
    tasks, buses = int(random.integers(2, 30)), int(random.integers(1, 5))
    work_s = random.uniform(0.5, 5.0, tasks)
    demand = random.uniform(0.0, 1.0, (tasks, buses)) * (random.random((tasks, buses)) < 0.7)
    arrival_s = random.uniform(0.0, 5.0, tasks) * (random.random() < 0.5)
    return {
        "kind": "bmf",
        "cores": int(random.integers(1, tasks + 1)) if random.random() < 0.5 else 64,
        "capacity": (demand.sum(axis=0) * random.uniform(0.2, 1.2, buses) + 1e-3).tolist(),
        "tasks": [
            [float(arrival_s[i]), float(work_s[i]), (demand[i] * work_s[i]).tolist()] for i in range(tasks)
        ],
    }


def random_maxmin(random: np.random.Generator) -> Case:
    """Draw a max-min system: 2 to 60 flows over routes of 1 to 4 of 2 to 12 links."""
    flows, links = int(random.integers(2, 61)), int(random.integers(2, 13))
    spread_s = 20.0 * (random.random() < 0.7)
    return {
        "kind": "maxmin",
        "capacity": random.uniform(1e8, 1e9, links).tolist(),
        "flows": [
            [
                float(random.uniform(0.0, 1.0) * spread_s),
                int(random.integers(10**8, 5 * 10**9)),
                random.choice(links, int(random.integers(1, min(4, links) + 1)), replace=False).tolist(),
            ]
            for _ in range(flows)
        ],
    }


def simgrid_finish_s(cases: Sequence[Case], python: str) -> list[NDArray[np.float64] | None]:
    """Run `cases` in SimGrid; None where it found no allocation.

    Args:
        cases: systems.
        python: interpreter that can import simgrid.

    Raises:
        RuntimeError: the peer did not answer every case.
    """
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([python, SOLVER], input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(cases):
        raise RuntimeError(f"SimGrid answered {len(answers)} of {len(cases)} cases: {done.stderr[-500:]}")
    return [None if answer is None else np.array(answer) for answer in answers]


def kernel_finish_s(case: Case, *, buses: Literal["links", "node"] = "links") -> NDArray[np.float64]:
    """Run a system in our kernel.

    Args:
        case: the system.
        buses: of a bmf system: "links" makes every bus a link of the fabric, "node" makes the first two the
        node's memory and disk bandwidth, so that both solvers of the kernel and their coupling are exercised.
    """
    kernel, starts = _bmf(case, buses) if case["kind"] == "bmf" else _maxmin(case)
    ids = kernel.start(starts)
    kernel.advance(np.inf, wake=Wake.NOTHING)
    return kernel.finished_s(ids)


def _bmf(case: Case, buses: str) -> tuple[FluidKernel, TaskStarts]:
    capacity = [float(number) for number in case["capacity"]]
    on_node = 2 if buses == "node" else 0
    local = [*capacity[:on_node], np.inf, np.inf][:2]
    nodes = KernelNodes.of(
        1,
        cpu_cores=float(case["cores"]),
        dram_bytes_per_s=local[0] if on_node else np.inf,
        disk_bytes_per_s=local[1] if on_node else np.inf,
        link_bytes_per_s=capacity[on_node:] or [1.0],
    )
    kernel = FluidKernel(nodes)
    phases: list[list[TaskPhase]] = []
    for _, work_s, sent in case["tasks"]:
        rates = [amount / work_s for amount in sent]
        own = [*rates[:on_node], 0.0, 0.0][:2]
        links = tuple(Flow(link, rate) for link, rate in enumerate(rates[on_node:]) if rate > 0.0)
        phases.append(
            [
                TaskPhase(
                    work_s=work_s,
                    dram_bytes_per_s=own[0] if on_node else 0.0,
                    disk_read_bytes_per_s=own[1] if on_node else 0.0,
                    flows=links,
                )
            ]
        )
    profiles = kernel.add_profiles(KernelProfiles.from_phases(phases))
    return kernel, TaskStarts.of(0, profiles, start_s=[task[0] for task in case["tasks"]])


def _maxmin(case: Case) -> tuple[FluidKernel, TaskStarts]:
    kernel = FluidKernel(KernelNodes.of(1, cpu_cores=1.0, link_bytes_per_s=case["capacity"]))
    profiles = kernel.add_profiles(
        KernelProfiles.from_phases(
            [
                [
                    TaskPhase(
                        work_s=size / _FAST, cpu_cores=0.0, flows=tuple(Flow(link, _FAST) for link in route)
                    )
                ]
                for _, size, route in case["flows"]
            ]
        )
    )
    return kernel, TaskStarts.of(0, profiles, start_s=[flow[0] for flow in case["flows"]])


def difference(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Largest relative difference of finish times."""
    return float(np.max(np.abs(ours - theirs) / np.abs(theirs)))


def verdict(case: Case, ours: NDArray[np.float64], python: str) -> float:
    """Largest relative difference between our run of a bmf system and SimGrid asked afresh at our events.

    At every finish of ours, the tasks present then and their remaining work are given to SimGrid as a new
    system; the time until the first of them ends must be ours. Remaining work is our kernel's at that
    instant.
    """
    kernel, starts = _bmf(case, "links")
    ids = kernel.start(starts)
    arrivals = np.array([task[0] for task in case["tasks"]])
    work = np.array([task[1] for task in case["tasks"]])
    instants = np.unique(np.concatenate([arrivals, ours]))
    states: list[Case] = []
    gaps: list[float] = []
    for at_s, until_s in pairwise(instants.tolist()):
        kernel.advance(max(at_s, kernel.now_s), wake=Wake.NOTHING)
        left = (1.0 - kernel.progress(ids)) * work
        present = np.flatnonzero((arrivals <= at_s) & (ours > at_s * (1.0 + 1e-12)))
        if present.size == 0 or until_s not in ours:
            continue
        tasks = [[0.0, float(left[i]), [x * left[i] / work[i] for x in case["tasks"][i][2]]] for i in present]
        states.append({**case, "tasks": tasks})
        gaps.append(until_s - at_s)
    answers = simgrid_finish_s(states, python)
    known = [(gap, answer) for gap, answer in zip(gaps, answers, strict=True) if answer is not None]
    return max((abs(float(answer.min()) - gap) / gap for gap, answer in known if gap > 1e-6), default=0.0)
