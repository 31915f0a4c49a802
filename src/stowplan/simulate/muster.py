"""From the placements of a cycle to gangs that start: together, each with its ring.

The decoder places a gang in one cycle or not at all, so its workers are all in one batch. They start when the
last of them can. What the ring sends over the links is added to the workers' own profiles, so that everything
else on those links feels it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.decoder import Placed
from stowplan.core.domain import PendingTask, Training
from stowplan.errors import InternalError
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.demands import add_flows, gpu_share, profiles_of
from stowplan.simulate.gangs import Gangs, TrainingRun
from stowplan.simulate.kernel import FLOW_SLOTS
from stowplan.simulate.rings import Ring, RingMaker, Worker
from stowplan.simulate.site import Site

__all__ = ["Muster"]

_Batch = Sequence[tuple[PendingTask, Placed]]
_Flows = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A gang of the batch: positions of its workers in it; the ring and its flows, if it trains."""

    positions: tuple[int, ...]
    training: Training | None
    ring: Ring | None
    flows: tuple[_Flows, ...]
    ideal_s: float


class Muster:
    """Makes gangs of what a cycle placed."""

    def __init__(self, cluster: Cluster, site: Site, gangs: Gangs) -> None:
        """Enlist into `gangs`."""
        self._site = site
        self._gangs = gangs
        self._rings = RingMaker(cluster, site.machines)

    def gather(
        self,
        placed: _Batch,
        nodes: NDArray[np.int64],
        profiles: NDArray[np.int64],
        start_s: NDArray[np.float64],
    ) -> Mapping[tuple[str, str], _Draft]:
        """Find the gangs of a batch; set their profiles and starts, (batch,) each, in place.

        Raises:
            InternalError: a gang is not there as a whole.
        """
        positions_of: dict[tuple[str, str], list[int]] = {}
        for position, (task, _) in enumerate(placed):
            if task.gang_key is not None:
                positions_of.setdefault(task.gang_key, []).append(position)
        drafts: dict[tuple[str, str], _Draft] = {}
        for key, positions in positions_of.items():
            first = placed[positions[0]][0].task
            if first.gang is None or first.gang.size != len(positions):
                raise InternalError(f"{len(positions)} tasks of gang {key!r} were placed; it is all or none")
            start_s[positions] = start_s[positions].max()  # NaN, at once, is for all or for none
            training, ring = first.work.training, None
            flows: list[_Flows] = []
            ideal_s = first.work.alone_s / training.steps if training is not None else 0.0
            if training is not None and ideal_s > 0.0:
                workers = [Worker(int(nodes[each]), placed[each][1].gpus) for each in positions]
                ring = self._rings.ring(training, workers)
                for each, shares in zip(positions, ring.flows, strict=True):
                    wanted = [(link, share * ring.bytes_per_step / ideal_s) for link, share in shares]
                    profiles[each], kept = self._profile(placed[each], int(nodes[each]), wanted)
                    flows.append(kept)
            drafts[key] = _Draft(tuple(positions), training, ring, tuple(flows), ideal_s)
        return drafts

    def enlist(
        self,
        drafts: Mapping[tuple[str, str], _Draft],
        kernel_ids: Sequence[int],
        first_attempt: int,
        speeds: NDArray[np.float64],
    ) -> None:
        """Take in the gangs that were gathered, now that the kernel has begun with them."""
        for (workflow, gang), draft in drafts.items():
            attempts = [first_attempt + position for position in draft.positions]
            run: TrainingRun | None = None
            if draft.training is not None and draft.ring is not None:
                run = TrainingRun(
                    workflow=workflow,
                    gang=gang,
                    training=draft.training,
                    ideal_s=draft.ideal_s,
                    ring=draft.ring,
                    attempts=tuple(attempts),
                    kernel_ids=tuple(kernel_ids[position] for position in draft.positions),
                    speeds=tuple(float(speeds[position]) for position in draft.positions),
                    flows=draft.flows,
                )
            self._gangs.add(attempts, run)

    def _profile(
        self, one: tuple[PendingTask, Placed], node: int, wanted: Sequence[tuple[int, float]]
    ) -> tuple[int, _Flows]:
        """Return the id of a worker's profile with the flows of its ring, and which of these it took."""
        pending, outcome = one
        machines = self._site.machines
        root = machines.root_of_gpu[node][outcome.gpus[0]] if outcome.gpus else 0
        base = profiles_of(
            [(pending.task.work, gpu_share(pending.task))],
            leaves_rack=machines.has_rack_links,
            root_complex=root,
        )
        room = FLOW_SLOTS - int(base.phases["flow_count"].max(initial=0))
        kept = tuple(wanted[:room])
        return int(self._site.kernel.add_profiles(add_flows(base, kept))[0]), kept
