"""Turns a plan into placements that hold: hard constraints, live capacity, a total order, an explanation."""

from stowplan.core.decoder.explanation import Explanation
from stowplan.core.decoder.gpus import choose_gpus
from stowplan.core.decoder.greedy import CLOSED, GreedyDecoder
from stowplan.core.decoder.outcomes import Degraded, Infeasible, Lost, Outcome, Placed, Wait

__all__ = [
    "CLOSED",
    "Degraded",
    "Explanation",
    "GreedyDecoder",
    "Infeasible",
    "Lost",
    "Outcome",
    "Placed",
    "Wait",
    "choose_gpus",
]
