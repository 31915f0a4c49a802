"""Frames like those of an experiment, made without simulating: for tests of what is drawn."""

import numpy as np
import polars as pl

from stowplan.simulate.report.model import SLOWDOWN_COLUMNS, ReportData

FAMILIES = ("epigenomics", "1000genome", "montage", "bwa", "")


def synthetic_data(
    *,
    tasks: int = 300,
    nodes: int = 8,
    seeds: int = 3,
    policies: tuple[str, ...] = ("kube-scheduler", "heft", "srpt-physics"),
) -> ReportData:
    """Return an experiment in which each later policy is faster; every node runs up to four tasks at once."""
    rng = np.random.default_rng(7)
    task_frames: list[pl.DataFrame] = []
    workflow_rows: list[dict[str, str | int | float | None]] = []
    usage_frames: list[pl.DataFrame] = []
    names = [f"node-{number:03d}" for number in range(nodes)]
    for rank, policy in enumerate(policies):
        for seed in range(seeds):
            alone_s = rng.gamma(2.0, 60.0, tasks)
            lost = {
                column: rng.gamma(0.5, 8.0, tasks) * (1.5 - 0.4 * rank)
                for column in SLOWDOWN_COLUMNS.values()
            }
            lost["slow_machine_s"] = -0.1 * alone_s
            length_s = alone_s + sum(lost.values())
            on = rng.integers(0, nodes, tasks)
            start_s = np.zeros(tasks)
            free_s = np.zeros((nodes, 4))
            for index in range(tasks):
                lane = int(free_s[on[index]].argmin())
                start_s[index] = free_s[on[index], lane]
                free_s[on[index], lane] = start_s[index] + length_s[index]
            which = np.arange(tasks) % 20
            task_frames.append(
                pl.DataFrame(
                    {
                        "policy": policy,
                        "seed": seed,
                        "workflow": [f"run-{number:02d}" for number in which],
                        "family": [FAMILIES[number % len(FAMILIES)] for number in which],
                        "task": [f"<task>_{number:05d}" for number in range(tasks)],
                        "template": "kind",
                        "node": [names[row] for row in on],
                        "status": "done",
                        "started_s": start_s,
                        "finished_s": start_s + length_s,
                        "alone_s": alone_s,
                        **lost,
                    }
                )
            )
            workflow_rows += [
                {
                    "policy": policy,
                    "seed": seed,
                    "workflow": f"run-{number:02d}",
                    "family": FAMILIES[number % len(FAMILIES)],
                    "completion_s": float((start_s + length_s)[which == number].max())
                    if (which == number).any()
                    else None,
                }
                for number in range(20)
            ]
            horizon_s = float((start_s + length_s).max())
            edges_s = np.linspace(0.0, horizon_s, 801)
            times_s = edges_s[:-1]
            for resource, share in (("cpu", 0.6), ("memory", 0.3), ("disk", 0.8)):
                used = (
                    np.clip(share + 0.1 * np.sin(times_s / horizon_s * 20) + rng.normal(0, 0.03, 800), 0, 1)
                    * 64
                )
                usage_frames.append(
                    pl.DataFrame(
                        {
                            "policy": policy,
                            "seed": seed,
                            "time_s": times_s,
                            "length_s": np.diff(edges_s),
                            "resource": resource,
                            "requested": np.minimum(used * 1.3 + 4, 64.0),
                            "used": used,
                            "allocatable": 64.0,
                        }
                    )
                )
    return ReportData(
        tasks=pl.concat(task_frames),
        workflows=pl.DataFrame(workflow_rows),
        usage=pl.concat(usage_frames),
        baseline=policies[0],
        nodes=tuple(names),
    )
