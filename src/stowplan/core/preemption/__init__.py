"""Which pods of lower priority must go so that a pod that found no node can run: kube-scheduler's preemption.

The rules are those of kube-scheduler 1.37's DefaultPreemption, with the feature gates at their defaults
(`framework/preemption`, `plugins/defaultpreemption`). What its plugins leave to chance has an order here:

* Pods that are equally important keep the order in which they came to the node; kube-scheduler's sorting is
  not stable.
* Budgets are asked in the order in which they are given; kube-scheduler takes them from a hash table, and
  when a pod has several of them, the order can matter.
* Of nodes that are equally good, the first from the offset is taken; kube-scheduler takes one from a hash
  table.

Groups of pods (the gate GenericWorkload, off by default) are not known here.
"""

from stowplan.core.preemption.budgets import BudgetBook
from stowplan.core.preemption.choice import Candidate, StartTimes, best_candidate, preference
from stowplan.core.preemption.eligibility import why_not_eligible
from stowplan.core.preemption.search import Search, SearchSettings, search
from stowplan.core.preemption.victims import select_victims

__all__ = [
    "BudgetBook",
    "Candidate",
    "Search",
    "SearchSettings",
    "StartTimes",
    "best_candidate",
    "preference",
    "search",
    "select_victims",
    "why_not_eligible",
]
