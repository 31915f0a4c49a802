"""Preemption: agreement with kube-scheduler's, case for case, and how long a search takes.

A case is one pod that waits in a crowded cluster of 12 nodes with pods of all priorities, disruption budgets
and nominated pods; our search and kube-scheduler's own plugin try every node, and are compared by the nodes
tried, the victims in order, the budgets broken and the node chosen. The times, of the processor, are those of
one search over 5,000 nodes with 50,000 pods of lower priority and 50 budgets, for a pod that minds only
resources and for one with anti-affinity and topology spread: with the default limits (a tenth of the nodes),
over all nodes, and with the default limits where every node breaks a budget, so that all are tried too.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time
from typing import Final, NamedTuple

from bench.harness import Row, median_ci95
from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    DisruptionBudget,
    LabelSelector,
    Node,
    NodeSet,
    PodAffinityTerm,
    PodBound,
    PodShape,
    Resources,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from stowplan.core.preemption import SearchSettings, search
from testbed.differential.run import Progress
from testbed.differential.run import run as judge

CASES: Final = 50_000
SEED: Final = 7
NODES_OF_CASES: Final = 12
TALLY: Final = Path("out") / "preemption_search.json"
PODS_PER_NODE: Final = 10
APPS: Final = 20
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


def agreement(path: Path, cases: int, processes: int) -> list[Row]:
    """Compare with kube-scheduler's own plugin."""
    path.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(seed=SEED, nodes=NODES_OF_CASES)
    for progress in judge(
        path, cases=cases, seed=SEED, processes=processes, nodes=NODES_OF_CASES, emphasis="preemption"
    ):
        if len(progress.done) % 100 == 0:
            print(f"  {progress.tally.cases:,} cases, {progress.tally.different:,} mismatches", flush=True)
    tally = progress.tally

    def row(name: str, value: float, what: str, unit: str) -> Row:
        return Row.exact(value, name=f"preemption/{name}", what=what, unit=unit)

    return [
        row("cases", tally.preemptions, f"pods that want room, in {tally.clusters:,} clusters", "cases"),
        row("mismatches", tally.different, "differences of any kind", "differences"),
        row("helped", tally.helped, "cases in which preemption helps on some node", "cases"),
        row("nodes", tally.emptied, "nodes on which it helps, each with its victims", "nodes"),
        row("breaking", tally.breaking, "of these, nodes on which it breaks a budget", "nodes"),
        row("ineligible", tally.ineligible, "cases in which the pod may not preempt", "cases"),
    ]


def crowded(nodes: int) -> ClusterState:
    """A full cluster."""
    shapes = [
        PodShape(
            labels=(("app", f"a{number}"),),
            requests=Resources({"cpu": 400, "memory": 2**28}),
            priority=number % 3,
        )
        for number in range(APPS)
    ]
    state = ClusterState()
    for number in range(nodes):
        name = f"n{number}"
        labels = ((HOST, name), (ZONE, f"z{number % 3}"))
        state.apply(
            NodeSet(Node(name, Resources({"cpu": 4000, "memory": 2**34, "pods": 110}), labels=labels))
        )
        for place in range(PODS_PER_NODE):
            pod = BoundPod(f"default/p{number}-{place}", shapes[(number + place) % APPS])
            state.apply(PodBound(pod, name))
    return state


def wanting() -> dict[str, PodShape]:
    """The pods that want room."""
    apart = LabelSelector.from_labels({"app": "a3"})
    plain = Resources({"cpu": 1500})
    return {
        "plain": PodShape(requests=plain, priority=100),
        "related": PodShape(
            labels=(("app", "a3"),),
            requests=plain,
            priority=100,
            anti_affinity=(PodAffinityTerm(HOST, apart),),
            spread=tuple(
                SpreadConstraint(skew, key, WhenUnsatisfiable.DO_NOT_SCHEDULE, apart)
                for key, skew in ((ZONE, 5), (HOST, 1))
            ),
        ),
    }


class Reach(NamedTuple):
    """How far a search goes.

    Attributes:
        name: in that of its row.
        words: in what the row says.
        settings: its limits.
        disruptions_allowed: by each budget.
    """

    name: str
    words: str
    settings: SearchSettings
    disruptions_allowed: int


REACHES: Final = (
    Reach("search", "default limits", SearchSettings(), 1),
    Reach("search-all", "all nodes tried", SearchSettings(examines_all=True), 1),
    Reach("search-breaking", "default limits, every node breaks a budget", SearchSettings(), 0),
)


def times(nodes: int, repeats: int) -> list[Row]:
    """Time searches over one cluster."""
    state = crowded(nodes)
    rows: list[Row] = []
    for kind, shape in wanting().items():
        compiled = CompiledFilters(state, shape)
        for reach in REACHES:
            budgets = _budgets(reach.disruptions_allowed)

            def once(
                compiled: CompiledFilters = compiled,
                budgets: list[DisruptionBudget] = budgets,
                reach: Reach = reach,
            ) -> None:
                search(
                    state,
                    compiled,
                    budgets,
                    lambda key: float(len(key)),
                    settings=reach.settings,
                    generator=Random(1),  # noqa: S311  (a seeded workload)
                )

            taken_ms = [_processor_s(once) * 1e3 for _ in range(repeats)]
            what = f"one search over {nodes:,} nodes for a {kind} pod, {reach.words}"
            name = f"preemption/{reach.name}-{kind}"
            rows.append(Row.of(median_ci95(taken_ms), name=name, what=what, unit="ms"))
    return rows


def _budgets(disruptions_allowed: int) -> list[DisruptionBudget]:
    return [
        DisruptionBudget(
            "default", f"b{number}", LabelSelector.from_labels({"app": f"a{number}"}), disruptions_allowed
        )
        for number in range(50)
    ]


def _processor_s(function: Callable[[], None]) -> float:
    """Return the processor time of a call in seconds: a search waits for nothing, and runs in one thread."""
    start_s = process_time()
    function()
    return process_time() - start_s


def run(*, quick: bool) -> list[Row]:
    """Compare and time."""
    if not quick:
        return [*agreement(TALLY, CASES, 2), *times(5000, 10)]
    with tempfile.TemporaryDirectory() as folder:
        return [*agreement(Path(folder) / "tally.json", 200, 1), *times(200, 3)]
