"""Every policy by the name that users write, with one line of description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy.interface import Policy
from stowplan.core.policy.kube import KubeScoring
from stowplan.core.policy.listing import ListPolicy
from stowplan.core.policy.nodes.bid_price import BidPrice
from stowplan.core.policy.nodes.finish_time import CriticalMachine, EarliestFinish, OptimisticFinish
from stowplan.core.policy.nodes.fragmentation import FragmentationGradient, TargetTask
from stowplan.core.policy.nodes.gangs import GangPlaces
from stowplan.core.policy.nodes.gpus import GpuClustering, GpuPacking
from stowplan.core.policy.nodes.measured import MeasuredDuration
from stowplan.core.policy.nodes.packing import Alignment, BestFit, DotProduct
from stowplan.core.policy.nodes.predicted import PredictedDuration
from stowplan.core.policy.nodes.rare_nodes import RareNodes
from stowplan.core.policy.nodes.simple import RandomNode, RoundRobin
from stowplan.core.policy.orders import (
    CombinedRank,
    HeftRank,
    OptimisticCost,
    ProcessRank,
    by_arrival,
    by_duration,
    by_remaining_work,
    by_upward_rank,
)
from stowplan.core.policy.orders.tetris import TetrisOrder
from stowplan.core.policy.planned import InTurn, PlannedOrder
from stowplan.errors import InvalidInput, StowplanError, UnknownName

if TYPE_CHECKING:
    from stowplan.core.domain import PodShape
    from stowplan.core.lookahead.budget import MakeBudget
    from stowplan.core.policy.learned import Release

__all__ = ["make_policy", "policy_names"]


@dataclass(frozen=True, slots=True)
class _Entry:
    description: str
    make: Callable[..., Policy]


def _kube_scheduler(*, percentage_of_nodes_to_score: int = 100, hard_pod_affinity_weight: int = 1) -> Policy:
    scoring = KubeScoring(
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        hard_pod_affinity_weight=hard_pod_affinity_weight,
    )
    return ListPolicy("kube-scheduler", by_arrival, scoring)


def _fifo() -> Policy:
    return ListPolicy("fifo", by_arrival, KubeScoring())


def _sjf() -> Policy:
    return ListPolicy("sjf", by_duration, KubeScoring())


def _srpt() -> Policy:
    return ListPolicy("srpt", by_remaining_work, KubeScoring())


def _srpt_physics(*, laws: PhysicsLaws | None = None, solved_nodes: int = 8) -> Policy:
    node_rule = PredictedDuration(laws=laws, solved_nodes=solved_nodes)
    return ListPolicy("srpt-physics", by_remaining_work, node_rule)


def _srpt_measured(*, laws: PhysicsLaws | None = None, solved_nodes: int = 8) -> Policy:
    node_rule = MeasuredDuration(laws=laws, solved_nodes=solved_nodes)
    return ListPolicy("srpt-measured", by_remaining_work, node_rule)


def _critical_path() -> Policy:
    return ListPolicy("critical-path", by_upward_rank, KubeScoring())


def _heft(*, bytes_per_s: float | None = None) -> Policy:
    return ListPolicy("heft", HeftRank(bytes_per_s=bytes_per_s), EarliestFinish())


def _cpop(*, bytes_per_s: float | None = None) -> Policy:
    ranks = CombinedRank(bytes_per_s=bytes_per_s)
    return ListPolicy("cpop", ranks, CriticalMachine(ranks))


def _peft(*, bytes_per_s: float | None = None) -> Policy:
    ranks = OptimisticCost(bytes_per_s=bytes_per_s)
    return ListPolicy("peft", ranks, OptimisticFinish(ranks))


def _tetris(*, remaining_weight: float = 1.0) -> Policy:
    alignment = Alignment()
    return ListPolicy("tetris", TetrisOrder(alignment, remaining_weight=remaining_weight), alignment)


def _best_fit() -> Policy:
    return ListPolicy("best-fit", by_arrival, BestFit())


def _dot_product() -> Policy:
    return ListPolicy("dot-product", by_arrival, DotProduct())


def _fgd(*, workload: tuple[TargetTask, ...] | None = None) -> Policy:
    return ListPolicy("fgd", by_arrival, FragmentationGradient(workload=workload))


def _bid_price(*, workload: Mapping[PodShape, float] | None = None) -> Policy:
    return ListPolicy("bid-price", by_arrival, BidPrice(workload=workload))


def _gangs(*, root_complexes: bool = True, network: bool = True, patience_s: float = 0.0) -> Policy:
    places = GangPlaces(root_complexes=root_complexes, network=network, patience_s=patience_s)
    return ListPolicy("gangs", by_arrival, places)


def _rare_nodes(*, workload: Mapping[PodShape, float] | None = None) -> Policy:
    return ListPolicy("rare-nodes", by_arrival, RareNodes(workload=workload))


def _gpu_packing() -> Policy:
    return ListPolicy("gpu-packing", by_arrival, GpuPacking())


def _gpu_clustering() -> Policy:
    return ListPolicy("gpu-clustering", by_arrival, GpuClustering())


def _round_robin() -> Policy:
    return ListPolicy("round-robin", by_arrival, RoundRobin())


def _random() -> Policy:
    return ListPolicy("random", by_arrival, RandomNode())


def _rank_min_round_robin() -> Policy:
    return ListPolicy("rank-min-round-robin", ProcessRank(), RoundRobin())


def _planned(*, order: Sequence[str] = ()) -> Policy:
    planned = PlannedOrder(order)
    return ListPolicy("planned", planned, InTurn(planned))


def _learned(*, model: Release | StowplanError | None = None) -> Policy:
    if model is None:
        raise InvalidInput(
            "policy 'learned' needs a model: give the folder of a release as its option 'model'"
        )
    # The other policies need no ONNX Runtime.
    from stowplan.core.policy.learned import LearnedPolicy, WithoutModel  # noqa: PLC0415

    return WithoutModel(model) if isinstance(model, StowplanError) else LearnedPolicy(model)


def _look_ahead(  # noqa: PLR0913  (each is one of its options)
    *,
    policy: str = "srpt-physics",
    options: Mapping[str, object] | None = None,
    alternatives: Sequence[str] = ("srpt", "kube-scheduler"),
    horizon: int = 16,
    margin: float = 0.02,
    most_tasks: int = 400,
    budget: MakeBudget | None = None,
) -> Policy:
    from stowplan.core.lookahead.policy import LookAhead  # noqa: PLC0415  (it decodes; that needs policies)

    return LookAhead(
        make_policy(policy, **(options or {})),
        [make_policy(name) for name in alternatives],
        budget=budget,
        horizon=horizon,
        margin=margin,
        most_tasks=most_tasks,
    )


_POLICIES: dict[str, _Entry] = {
    "kube-scheduler": _Entry(
        "Kubernetes' default scheduler: its queue and its score plugins", _kube_scheduler
    ),
    "fifo": _Entry("first come, first served; nodes as kube-scheduler scores them", _fifo),
    "sjf": _Entry("shortest expected task first", _sjf),
    "srpt": _Entry("workflow with the least work left first", _srpt),
    "srpt-physics": _Entry("as srpt; node where physics says that the task ends first", _srpt_physics),
    "srpt-measured": _Entry(
        "as srpt-physics, with the load and the disks that readings show", _srpt_measured
    ),
    "look-ahead": _Entry(
        "of several policies' plans, that from which most is foreseen, by physics", _look_ahead
    ),
    "critical-path": _Entry("longest remaining path of the workflow first", _critical_path),
    "heft": _Entry("upward rank, earliest finish time by machine type (Topcuoglu 2002)", _heft),
    "cpop": _Entry("critical path on its fastest machine type (Topcuoglu 2002)", _cpop),
    "peft": _Entry("optimistic cost table (Arabnejad 2014)", _peft),
    "tetris": _Entry("alignment of demand and free resources, little work left first (Grandl 2014)", _tetris),
    "best-fit": _Entry("node with the least left over", _best_fit),
    "dot-product": _Entry("node with the smallest product of demand and what is left", _dot_product),
    "fgd": _Entry("least growth of GPU fragmentation (Weng 2023)", _fgd),
    "bid-price": _Entry("where the pods to come could have used the GPU least", _bid_price),
    "rare-nodes": _Entry("as bid-price, and away from nodes that some pods must have", _rare_nodes),
    "gangs": _Entry(
        "training gangs together: in a root complex, node, rack or zone as one takes them", _gangs
    ),
    "gpu-packing": _Entry("shared GPUs first, idle nodes last", _gpu_packing),
    "gpu-clustering": _Entry("tasks with equal GPU requests together", _gpu_clustering),
    "round-robin": _Entry("nodes in turn", _round_robin),
    "random": _Entry("any feasible node", _random),
    "rank-min-round-robin": _Entry(
        "deepest process first, smaller input first, nodes in turn (Lehmann 2023)", _rank_min_round_robin
    ),
    "learned": _Entry("as a trained network orders and places; needs a model", _learned),
    "planned": _Entry("in the order of a plan made beforehand; nothing overtakes", _planned),
}


def make_policy(name: str, **options: object) -> Policy:
    """Make a policy by name, with its own caches.

    Args:
        name: one of `policy_names`.
        options: what the policy can be told, by keyword; see docs/POLICIES.md.

    Raises:
        UnknownName: there is no such policy, or it has no such option; the message offers the nearest.
        InvalidInput: an option has a value that it cannot have.
    """
    entry = _POLICIES.get(name)
    if entry is None:
        raise UnknownName("policy", name, _POLICIES)
    known = inspect.signature(entry.make).parameters
    for option in options:
        if option not in known:
            if not known:
                raise InvalidInput(f"policy {name!r} has no options, but {option!r} was given; leave it out")
            raise UnknownName(f"option of policy {name!r}", option, known)
    return entry.make(**options)


def policy_names() -> dict[str, str]:
    """Return the description of every policy by name, the baseline first."""
    return {name: entry.description for name, entry in _POLICIES.items()}
