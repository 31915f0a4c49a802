"""How long to pause before trying again: longer each time, never the same for many at once."""

import random

__all__ = ["Backoff"]


class Backoff:
    """Pauses that double from a first to a longest one, each drawn between half of it and all of it.

    The draw keeps many clients that lost the same server from coming back at the same moment.

    Args:
        first_s: The first pause, in seconds.
        longest_s: The longest, in seconds.
        generator: Where draws come from.
    """

    def __init__(self, first_s: float, longest_s: float, generator: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._generator = generator
        self._next_s = first_s

    def pause_s(self, at_least_s: float = 0.0) -> float:
        """The next pause in seconds; at least what a server asked for."""
        drawn_s = self._next_s * (0.5 + 0.5 * self._generator.random())
        self._next_s = min(self._next_s * 2.0, self._longest_s)
        return max(drawn_s, at_least_s)

    def reset(self) -> None:
        """Begin anew with the first pause: something succeeded."""
        self._next_s = self._first_s
