"""Look-ahead: plans are tried out before one is taken."""

from stowplan.core.lookahead.budget import Budget, Counted, MakeBudget, Timed
from stowplan.core.lookahead.policy import Examined, LookAhead

__all__ = ["Budget", "Counted", "Examined", "LookAhead", "MakeBudget", "Timed"]
