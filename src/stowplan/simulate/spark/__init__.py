"""Streams of Spark jobs on a fixed set of executors: the benchmark of Decima, with the rules to beat.

Jobs (TPC-H queries of seven sizes) arrive in a Poisson stream. A job is a DAG of stages, a stage a number of
equal tasks, an executor runs one task at a time. A policy decides how many executors go to which stage; the
metric is the mean completion time of the jobs. H. Mao et al., "Learning scheduling algorithms for data
processing clusters", SIGCOMM 2019; the rules here are those of the public simulators of that benchmark, whose
published results they reproduce (docs/SIMULATOR.md, "Spark mode")::

    profiles = SparkProfiles.load("tpch_stages.json.gz")
    result = run_episode(profiles, STREAMING, fair(), seed=0)
    result.mean_completion_s

    episode = SparkEpisode.seeded(profiles, STREAMING, seed=0)  # or step by step, in Python
    while not episode.is_over:
        decision = episode.decision()
        episode.answer(Answer(stage=int(decision.stages[decision.schedulable][0]), executors=1))
    episode.result()

What makes executors dear to move:

* An executor on its way to another job is idle for `moving_s`, and its first task there is slow (fresh).
* Executors stay with a stage until it has no task left to begin. Only then are they offered, those that still
  run their last task included: they are promised ahead.
* Executors that are left where they are wait at their job until one of its stages opens others; only when the
  job has no more tasks to begin they go to the common pool, which is offered when a job arrives.
* Tasks take longer the more executors are at the job, idle ones included.
"""

from stowplan.simulate.spark.decision import LEAVE, Answer, Decision, SparkPolicy
from stowplan.simulate.spark.episode import CompiledRule, SparkEpisode, SparkResult, run_episode
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.rules import critical_path, fair, fifo, srpt, weighted_fair
from stowplan.simulate.spark.setting import OVERLOADED, STREAMING, JobSequence, SparkSetting
from stowplan.simulate.spark.shares import LearnedShares, ShareParameters, learned_shares, size_shares

__all__ = [
    "LEAVE",
    "OVERLOADED",
    "STREAMING",
    "Answer",
    "CompiledRule",
    "Decision",
    "JobSequence",
    "LearnedShares",
    "ShareParameters",
    "SparkEpisode",
    "SparkPolicy",
    "SparkProfiles",
    "SparkResult",
    "SparkSetting",
    "critical_path",
    "fair",
    "fifo",
    "learned_shares",
    "run_episode",
    "size_shares",
    "srpt",
    "weighted_fair",
]
