"""Offline planning: the whole schedule of a batch of workflows, before anything runs.

    plan = plan_batch(Batch.of(cluster, workload), seed=1, passes=10_000)
    plan.makespan_s, plan.bounds.best_s                       # what was reached, and what cannot be beaten
    Simulation(cluster, workload, plan.policy(), seed=0, contention=False).run()   # carries it out

A batch is there at once, on one node, with durations that are known: resource-constrained project scheduling.
Lists of tasks are made by constructive rules, turned into schedules serially, pushed right and left again,
and changed by a local search. The policy `planned` starts the tasks in the order of the plan, waits included.
"""

from stowplan.simulate.planning.batch import Batch
from stowplan.simulate.planning.bounds import Bounds, bounds_of
from stowplan.simulate.planning.planner import BatchPlan, plan_batch

__all__ = ["Batch", "BatchPlan", "Bounds", "bounds_of", "plan_batch"]
