"""What disturbances act on: the machines, the plan of what is due, and the simulator behind both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.site import Site
from stowplan.simulate.timeline import Timeline

__all__ = ["Host", "Stage"]


class Host(Protocol):
    """What disturbances ask of the simulator."""

    def lose_pods(self, node: int, time_s: float) -> None:
        """Give up every pod that is bound to the node."""
        ...

    def hear_from(self, node: int, time_s: float) -> None:
        """Take in what ended on the node while it was mute."""
        ...

    def node_changed(self) -> None:
        """Have the scheduler look again."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Handed to every stream of disturbances."""

    site: Site
    timeline: Timeline
    host: Host
    options: SimulationOptions
