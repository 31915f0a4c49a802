"""Forward-backward improvement: push everything to the right, then everything to the left.

Placing the tasks of a schedule backwards, the one that ends last first, pushes each as far right as it goes;
placing that schedule forwards again, the one that starts first first, pushes each left. The makespan never
grows, and mostly shrinks: what was torn open at the end by one pass is closed by the other.

Source: V. Valls, F. Ballestín, S. Quintanilla, "Justification and RCPSP: A technique that pays", European
Journal of Operational Research 165(2), 2005.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.planning.graph import Graph
from stowplan.simulate.planning.timetable import Timetable, list_by_end, place_serially

__all__ = ["justify"]


@inner
def justify(graph: Graph, mirrored: Graph, table: Timetable, tasks: NDArray[np.int64]) -> float:
    """Push the schedule in `table` right, then left; return the new makespan in seconds.

    `mirrored` is the reverse of `graph`. `tasks` is left as the list that makes the new schedule.
    """
    list_by_end(graph, table, tasks)
    place_serially(mirrored, tasks, table)
    list_by_end(mirrored, table, tasks)
    return place_serially(graph, tasks, table)
