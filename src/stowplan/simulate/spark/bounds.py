"""What no schedule could have beaten, given how much work the tasks of an episode turned out to be."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from stowplan.simulate.spark.episode import SparkResult
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.setting import SparkSetting

__all__ = ["completion_bounds_s", "mean_completion_bound_s"]


def _jobs_of_runs(
    profiles: SparkProfiles, result: SparkResult
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the stages of each job begin, (n + 1,), and the job of each task, (tasks,)."""
    first_stage = np.concatenate([[0], np.cumsum(np.diff(profiles.first_stage)[result.kinds])])
    return first_stage, np.searchsorted(first_stage, result.runs["stage"], side="right") - 1


def completion_bounds_s(
    profiles: SparkProfiles, setting: SparkSetting, result: SparkResult
) -> NDArray[np.float64]:
    """Return the least time that each job could have taken alone, (n,).

    Executors must come first. Then the stages of a path follow one another, each as long as its longest task,
    and all executors together can do no more than run all the time.
    """
    first_stage, job_of_run = _jobs_of_runs(profiles, result)
    took_s = (result.runs["end_ms"] - result.runs["start_ms"]) / 1000.0
    longest_s = np.zeros(int(first_stage[-1]))
    np.maximum.at(longest_s, result.runs["stage"], took_s)
    work_s = np.bincount(job_of_run, took_s, len(result.kinds))
    paths_s = np.zeros(len(result.kinds))
    for job, kind in enumerate(result.kinds.tolist()):
        stages = profiles.stages[profiles.first_stage[kind] : profiles.first_stage[kind + 1]]
        done_s = np.zeros(len(stages))
        waits = stages["parents"].copy()
        ready = np.flatnonzero(waits == 0).tolist()
        for stage in ready:  # grows while it is gone through
            parents = _neighbours(profiles, stages[stage], "parent", "parents")
            done_s[stage] = longest_s[first_stage[job] + stage] + done_s[parents].max(initial=0.0)
            for child in _neighbours(profiles, stages[stage], "child", "children").tolist():
                waits[child] -= 1
                if waits[child] == 0:
                    ready.append(child)
        paths_s[job] = done_s.max()
    return setting.moving_s + np.maximum(paths_s, work_s / setting.executors)


def _neighbours(profiles: SparkProfiles, stage: np.void, one: str, many: str) -> NDArray[np.int64]:
    return profiles.neighbours[stage[f"first_{one}"] :][: stage[many]]


def mean_completion_bound_s(profiles: SparkProfiles, setting: SparkSetting, result: SparkResult) -> float:
    """Return a mean completion time that no schedule of these very tasks is below.

    It is the larger of two: the mean of what each job takes alone, and the mean if all executors were one
    machine that serves the job with the least work left, which is optimal there (L. Schrage, "A proof of the
    optimality of the shortest remaining processing time discipline", Operations Research 16(3), 1968).
    """
    _, job_of_run = _jobs_of_runs(profiles, result)
    took_s = (result.runs["end_ms"] - result.runs["start_ms"]) / 1000.0
    service_s = np.bincount(job_of_run, took_s, len(result.kinds)) / setting.executors
    alone_s = float(completion_bounds_s(profiles, setting, result).mean())
    return max(alone_s, _mean_of_shortest_first_s(result.arrival_s.tolist(), service_s.tolist()))


def _mean_of_shortest_first_s(arrivals_s: list[float], service_s: list[float]) -> float:
    """Return the mean completion time on one machine, the least left first; arrivals ascend."""
    now_s = 0.0
    total_s = 0.0
    waiting: list[tuple[float, float]] = []
    for number, (arrival_s, needs_s) in enumerate(zip(arrivals_s, service_s, strict=True)):
        now_s = max(now_s, arrival_s)
        heapq.heappush(waiting, (needs_s, arrival_s))
        until_s = arrivals_s[number + 1] if number + 1 < len(arrivals_s) else float("inf")
        while waiting and now_s < until_s:
            left_s, came_s = heapq.heappop(waiting)
            if now_s + left_s > until_s:
                heapq.heappush(waiting, (left_s - (until_s - now_s), came_s))
                now_s = until_s
            else:
                now_s += left_s
                total_s += now_s - came_s
    return total_s / len(arrivals_s)
