"""Training gangs: together in as small a part of the cluster as takes them.

Every step of a training job ends with a reduction over all its GPUs, as fast as the slowest link between them
and shared with every other job there (`core.physics.all_reduce`). So a gang is planned as a whole, when the
first of its tasks is placed: into the narrowest level (root complex, node, rack, zone, cluster) at which some
part has room for all of it, there into the part with the least room, so that the large ones stay whole, and
over as few nodes of it as possible. Pods that use GPUs alone go where GPUs are in use already, for the same
reason.

* `root_complexes`: the first level, and which GPUs of a node are taken (R13). Alone, without `network`, a
  gang that fits into none is spread over few of them, wherever they are.
* `network`: the other levels.
* `patience_s`: a gang rather waits so long (since it was ready) than spread over a wider level than it needs.

Everything else, and between equals, as kube-scheduler scores it. Without either awareness that is all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import RACK_LABEL, ZONE_LABEL, GpuRequest, Node, PendingTask
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.core.policy.nodes.base import NodeRule
from stowplan.core.semantics.root_complexes import free_gpus_by_root_complex, root_complexes_of
from stowplan.errors import InvalidInput

__all__ = ["GangPlaces"]

_CHOSEN: Final = 1e6
"""Above every sum of kube-scheduler's scores."""
_ANY_ROOT: Final = -1
_WHOLE: Final = 1000
_NONE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, and there a root complex (`_ANY_ROOT`: whichever)."""

    row: int
    root: int = _ANY_ROOT


@dataclass(slots=True)
class _GangPlan:
    """Places for the tasks of a gang that were not asked for yet; `given` by task. None: rather wait."""

    open: list[_Place] | None
    given: dict[str, _Place]


class _Layout:
    """Where nodes and GPUs are: as long as the nodes are the same."""

    def __init__(self, nodes: list[Node | None]) -> None:
        self.nodes = list(nodes)
        self.roots = root_complexes_of(self.nodes)[0]
        self.has_gpu: NDArray[np.bool_] = np.zeros(self.roots.shape, np.bool_)
        zones: list[object] = []
        racks: list[object] = []
        for row, node in enumerate(self.nodes):
            zone = None if node is None else node.label(ZONE_LABEL)
            zones.append(zone)
            racks.append((zone, None if node is None else node.label(RACK_LABEL)))
            if node is not None:
                self.has_gpu[row, : len(node.hardware.gpus)] = True
        rows = np.arange(len(self.nodes))
        self.levels = (rows, _numbered(racks), _numbered(zones), np.zeros(len(self.nodes), np.int64))
        """Node, rack, zone and cluster: the part of each row, narrowest level first."""


class GangPlaces(NodeRule):
    """The rule of this module."""

    breaks_ties_randomly = True

    def __init__(self, *, root_complexes: bool, network: bool, patience_s: float) -> None:
        """Be aware of what is True.

        Raises:
            InvalidInput: a negative patience.
        """
        super().__init__()
        if not patience_s >= 0.0:
            raise InvalidInput(f"patience_s is {patience_s}; give seconds of 0 or more")
        self._kube = KubeScoring()
        self._sees_roots = root_complexes
        self._sees_network = network
        self._patience_s = patience_s
        self._layout = _Layout([])
        self._plans: dict[tuple[str, str], _GangPlan] = {}

    def begin(self, view: CycleView) -> None:
        """Start a cycle; plans are of one cycle."""
        super().begin(view)
        self._kube.begin(view)
        self._plans.clear()
        if self._layout.nodes != view.state.nodes:
            self._layout = _Layout(view.state.nodes)

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return kube-scheduler's scores, with the planned node above all; −inf: rather wait."""
        scores = self._kube.scores(task, filters)
        request = task.task.shape.gpu
        if request is None or not (self._sees_roots or self._sees_network):
            return scores
        if task.gang_key is None:
            chosen = self._alone(request, filters.feasible) & self._sees_roots
        else:
            plan = self._plan(task, request, filters.feasible)
            if plan.open is None:
                return np.full(scores.shape, -np.inf)
            place = plan.given.get(task.key)
            chosen = np.zeros(scores.shape, np.bool_)
            if place is not None:
                chosen[place.row] = True
        return scores + chosen * _CHOSEN

    def choose_gpus(self, task: PendingTask, row: int) -> tuple[int, ...] | None:
        """Return GPUs of the planned root complex, else of the fullest; None: the decoder's choice."""
        request = task.task.shape.gpu
        if request is None or not self._sees_roots:
            return None
        key = task.gang_key
        plan = self._plans.get(key) if key is not None else None
        place = plan.given.get(task.key) if plan is not None else None
        roots = self._layout.roots[row]
        free = self.state.gpu_free_milli[row, : roots.size]
        usable = free >= request.milli
        if place is not None and place.row == row and place.root != _ANY_ROOT:
            root = place.root
        else:
            here = 1 + sum(one.row == row for one in plan.open) if plan is not None and plan.open else 1
            root = _fitting_root(roots, usable, free, request, here)
        of_root = np.flatnonzero(usable & (roots == root))
        if root < 0 or of_root.size < request.count:
            return None
        order = np.lexsort((of_root, free[of_root]))
        return tuple(sorted(of_root[order][: request.count].tolist()))

    def expected_duration_s(self, task: PendingTask, row: int) -> float:
        """Return what kube-scheduler's rule would say."""
        return self._kube.expected_duration_s(task, row)

    # ---- one pod --------------------------------------------------------------------------------

    def _alone(self, request: GpuRequest, feasible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the rows where a pod breaks up least: shared GPUs, else the fullest root complexes."""
        free = self.state.gpu_free_milli[:, : self._layout.roots.shape[1]]
        shared = (free >= request.milli) & (free < _WHOLE) & feasible[:, None]
        if request.count == 1 and shared.any():
            least = np.where(shared, free, _WHOLE).min(axis=1)
            return least == least.min()
        counts = self._root_counts(request, feasible)
        enough = np.where(counts >= request.count, counts, _NONE).min(axis=1, initial=_NONE)
        return (enough == enough.min()) & (enough < _NONE)

    def _root_counts(self, request: GpuRequest, feasible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the usable GPUs of each root complex, (rows, root complexes); none where not feasible."""
        layout = self._layout
        free = self.state.gpu_free_milli[:, : layout.roots.shape[1]]
        counts = free_gpus_by_root_complex(free, layout.roots, milli=request.milli)[:, :-1]
        return np.where(feasible[:, None], counts, 0)

    # ---- a gang ---------------------------------------------------------------------------------

    def _plan(self, task: PendingTask, request: GpuRequest, feasible: NDArray[np.bool_]) -> _GangPlan:
        """Return the plan of the task's gang, made for its first task, with a place given to this one."""
        key, gang = task.gang_key, task.task.gang
        if key is None or gang is None:
            raise InvalidInput(f"task {task.key!r} is of no gang")
        plan = self._plans.get(key)
        if plan is None:
            level, places = self._places(request, gang.size, feasible)
            waits = (
                level > self._narrowest(request, gang.size)
                and self.view.now_s - task.ready_s < self._patience_s
            )
            plan = self._plans[key] = _GangPlan(None if waits else places, {})
        if plan.open and task.key not in plan.given:
            plan.given[task.key] = plan.open.pop(0)
        return plan

    def _places(
        self, request: GpuRequest, size: int, feasible: NDArray[np.bool_]
    ) -> tuple[int, list[_Place]]:
        """Return the narrowest level at which there is room, 0: root complex, and places for all tasks.

        Without room, or knowledge of a level, no place.
        """
        if self._sees_roots:
            counts = self._root_counts(request, feasible)
            place = _smallest(counts, request.count * size)
            if place is not None:
                return 0, [place] * size
            if not self._sees_network:
                return len(self._layout.levels) + 1, _over_roots(counts // request.count, size)
        free = self.state.gpu_free_milli[:, : self._layout.roots.shape[1]]
        room = np.where(feasible, (free >= request.milli).sum(axis=1) // request.count, 0)
        if self._sees_network:
            for level, part_of in enumerate(self._layout.levels, start=1):
                total = np.bincount(part_of, room)
                fits = np.flatnonzero(total >= size)
                if fits.size:
                    part = int(fits[total[fits].argmin()])
                    rows = np.flatnonzero((part_of == part) & (room > 0))
                    filled = _filled(dict(zip(rows.tolist(), room[rows].tolist(), strict=True)), size)
                    return level, [_Place(row) for row in filled]
        return len(self._layout.levels) + 1, []

    def _narrowest(self, request: GpuRequest, size: int) -> int:
        """Return the level at which the gang would be on an empty cluster."""
        layout = self._layout
        level = 0
        if self._sees_roots:
            full = np.where(layout.has_gpu, _WHOLE, -1)
            counts = free_gpus_by_root_complex(full, layout.roots, milli=request.milli)[:, :-1]
            if (counts // request.count).max(initial=0) >= size:
                return level
        room = layout.has_gpu.sum(axis=1) // request.count
        if self._sees_network:
            for level, part_of in enumerate(layout.levels, start=1):
                if np.bincount(part_of, room).max(initial=0) >= size:
                    return level
        return len(layout.levels) + 1


def _numbered(names: list[object]) -> NDArray[np.int64]:
    number_of: dict[object, int] = {}
    return np.array([number_of.setdefault(name, len(number_of)) for name in names], dtype=np.int64)


def _smallest(counts: NDArray[np.int64], needed: int) -> _Place | None:
    """Return the root complex with the fewest, but enough, of `counts` (rows, root complexes)."""
    if not counts.size:
        return None
    enough = np.where(counts >= needed, counts, _NONE)
    row, root = np.unravel_index(int(enough.argmin()), enough.shape)
    return _Place(int(row), int(root)) if counts[row, root] >= needed else None


def _over_roots(room: NDArray[np.int64], size: int) -> list[_Place]:
    """Return places for `size` tasks on few root complexes, by what each takes (rows, root complexes)."""
    if room.sum() < size:
        return []
    at = np.flatnonzero(room)
    filled = _filled(dict(zip(at.tolist(), room.ravel()[at].tolist(), strict=True)), size)
    return [_Place(*divmod(each, room.shape[1])) for each in filled]


def _filled(room: dict[int, int], size: int) -> Iterator[int]:
    """Yield where `size` tasks go, by `room`: the roomiest first, the rest where it just fits."""
    left = dict(room)
    while size > 0:
        fitting = [each for each, places in left.items() if places >= size]
        one = min(fitting, key=left.__getitem__) if fitting else max(left, key=left.__getitem__)
        here = min(left.pop(one), size)
        yield from [one] * here
        size -= here


def _fitting_root(
    roots: NDArray[np.int32],
    usable: NDArray[np.bool_],
    free: NDArray[np.int32],
    request: GpuRequest,
    pods: int,
) -> int:
    """Return the root complex of a node that just takes `pods` such pods, else the roomiest; −1: none."""
    if request.count == 1 and request.milli < _WHOLE:
        shared = usable & (free < _WHOLE)
        if shared.any():
            return int(roots[int(np.where(shared, free, _WHOLE + 1).argmin())])
    known = roots[usable & (roots >= 0)]
    if not known.size:
        return -1
    counts = np.bincount(known)
    needed = request.count * pods
    enough = np.flatnonzero(counts >= needed)
    return int(enough[counts[enough].argmin()]) if enough.size else int(counts.argmax())
