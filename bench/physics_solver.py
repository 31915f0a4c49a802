"""The kernel against SimGrid: the same finish times, and how much sooner.

Agreement: random systems run to the end by both: tasks that need a core and several buses at once (SimGrid's
`bmf` solver), and flows over routes of links (max-min), arrivals and scarce cores included.

Speed: 128 hosts of 16 cores behind rack links and one backbone, 2,048 actors that receive from a random host
and then compute; SimGrid's C++ engine, compiled with -O3, against our kernel, in turns. Both are told the
same script and must end at the same simulated time. Times are CPU seconds of the run alone, without building
the platform (SimGrid) or the tables (ours; putting the tasks on their nodes counts).
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np

from bench.harness import Paired, Row, build_cached, compare
from bench.peers.simgrid_systems import (
    AGREE,
    difference,
    kernel_finish_s,
    random_bmf,
    random_maxmin,
    simgrid_finish_s,
    verdict,
)
from stowplan.simulate.kernel import Flow, KernelNodes, KernelProfiles, TaskPhase, TaskStarts, Wake
from stowplan.simulate.kernel.kernel import FluidKernel

PEERS: Final = Path(__file__).parent / "peers"
COMPILE: Final = ["g++", "-O3", "-o", "{output}", "{source}", "-lsimgrid"]
SIMGRID_OPTIONS: Final = [
    "--log=root.thres:critical",
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/weight-S:0",
    "--cfg=network/crosstraffic:0",
]
_FAST: Final = 1e12
"""Bytes per second of work: a transfer that is never held back by itself."""


def simgrid_python() -> str:
    """Find an interpreter that can import SimGrid.

    Raises:
        RuntimeError: there is none.
    """
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False).returncode == 0:
            return python
    raise RuntimeError("SimGrid is not installed (Debian: apt-get install python3-simgrid libsimgrid-dev)")


def agreement_rows(instances: int) -> list[Row]:
    """Compare `instances` random systems of each kind with SimGrid."""
    python = simgrid_python()
    random = np.random.default_rng(20261130)
    rows: list[Row] = []
    for name, draw in (("bmf", random_bmf), ("maxmin", random_maxmin)):
        cases = [draw(random) for _ in range(instances)]
        theirs = simgrid_finish_s(cases, python)
        ours = [kernel_finish_s(case) for case in cases]
        apart: list[float] = []
        contradicted = 0
        for case, mine, other in zip(cases, ours, theirs, strict=True):
            if other is None:
                continue
            worst = difference(mine, other)
            if worst > AGREE and name == "bmf":
                contradicted += 1
                worst = verdict(case, mine, python)
            apart.append(worst)
        note = (
            f"{len(apart)} of {instances} systems; SimGrid found no allocation for {instances - len(apart)}"
        )
        if contradicted:
            note += f" and contradicted its own fresh answer in {contradicted}, where the fresh one is taken"
        rows += [
            Row.exact(
                float(sum(worst <= AGREE for worst in apart)),
                name=f"physics/simgrid-{name}-agree",
                what=f"random {name} systems with equal finish times (relative difference at most 1e-6)",
                unit="systems",
                note=note,
            ),
            Row.exact(
                max(apart),
                name=f"physics/simgrid-{name}-difference",
                what=f"largest relative difference of a finish time over random {name} systems",
                unit="",
                note=note,
            ),
        ]
    return rows


def star_script(hosts: int, actors: int, rounds: int) -> list[list[tuple[int, int, int]]]:
    """Draw what each actor does: rounds of (source host, bytes, flops)."""
    random = np.random.default_rng(1)
    script: list[list[tuple[int, int, int]]] = []
    for actor in range(actors):
        others = (actor % hosts + random.integers(1, hosts, rounds)) % hosts
        sizes = random.integers(10**6, 10**9, rounds)
        flops = random.integers(10**8, 10**10, rounds)
        script.append([(int(a), int(b), int(c)) for a, b, c in zip(others, sizes, flops, strict=True)])
    return script


def star_kernel(hosts: int, script: list[list[tuple[int, int, int]]]) -> tuple[FluidKernel, TaskStarts]:
    """Build the same platform and script as `peers/simgrid_star.cpp` for our kernel."""
    racks = max(1, hosts // 16)
    links = np.concatenate([np.full(hosts, 1.25e9), np.full(racks, 5e9), [10e9]])
    kernel = FluidKernel(KernelNodes.of(hosts, cpu_cores=16.0, link_bytes_per_s=links))
    profiles: list[list[TaskPhase]] = []
    for actor, rounds in enumerate(script):
        home = actor % hosts
        phases: list[TaskPhase] = []
        for source, size, flops in rounds:
            # A rack met twice on a route counts once, as in SimGrid.
            route = {source, home, hosts + source % racks, hosts + home % racks, hosts + racks}
            flows = tuple(Flow(link, _FAST) for link in sorted(route))
            phases += [
                TaskPhase(work_s=size / _FAST, cpu_cores=0.0, flows=flows),
                TaskPhase(work_s=flops / 1e9),
            ]
        profiles.append(phases)
    ids = kernel.add_profiles(KernelProfiles.from_phases(profiles))
    return kernel, TaskStarts.of(np.arange(len(script)) % hosts, ids)


def speed_row(hosts: int, actors: int, rounds: int, repeats: int) -> Row:
    """Time the star in both, in turns.

    Raises:
        RuntimeError: the two end at different simulated times.
    """
    program = build_cached(PEERS / "simgrid_star.cpp", COMPILE)
    script = star_script(hosts, actors, rounds)
    ours_s: list[float] = []
    peer_s: list[float] = []
    ended = 0.0
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder) / "star.txt"
        lines = [f"{hosts} {actors} {rounds}"] + [f"{a} {b} {c}" for rows in script for a, b, c in rows]
        workload.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for repeat in range(repeats + 1):
            kernel, starts = star_kernel(hosts, script)
            start = process_time()
            kernel.start(starts)
            kernel.advance(np.inf, wake=Wake.NOTHING)
            spent = process_time() - start
            answer = subprocess.run(
                [program, workload, *SIMGRID_OPTIONS], check=True, capture_output=True, text=True
            )
            end_s, _, peer_spent = answer.stdout.split()
            ended = float(kernel.finished_s(np.arange(actors)).max())
            if abs(ended - float(end_s)) > AGREE * ended:
                raise RuntimeError(f"the star ends at {ended} s in our kernel and at {end_s} s in SimGrid")
            if repeat > 0:  # the first pair compiles and fills caches
                ours_s.append(spent)
                peer_s.append(float(peer_spent))
    activities = 2 * actors * rounds
    return compare(
        Paired(tuple(ours_s), tuple(peer_s)),
        name=f"physics/simgrid-star-{actors}",
        what=f"{activities} activities of {actors} concurrent actors on {hosts} hosts behind one backbone",
        peer="SimGrid 3.32, C++",
        note=f"CPU seconds; SimGrid {activities / np.median(peer_s):.0f}, ours "
        f"{activities / np.median(ours_s):.0f} activities per second; both end at {ended:.6f} s",
    )


def run(*, quick: bool = False) -> list[Row]:
    """Compare and time; `quick` takes a few small systems."""
    if quick:
        return [*agreement_rows(20), speed_row(16, 64, 2, 2)]
    return [*agreement_rows(1200), speed_row(128, 2048, 4, 7)]
