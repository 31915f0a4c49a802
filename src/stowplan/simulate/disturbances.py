"""Faults as they unfold: what each does to machines and pods, and what it plans for later.

Nothing is drawn ahead of time, so a run may be as long as it likes; every rule has a generator of its own, so
one more rule does not move the faults of the others. A fault of a node that is out already is void.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.faults import Cause, Fault, FaultKind, FaultPlan
from stowplan.simulate.site import RECLAIMED, UNREACHABLE
from stowplan.simulate.stage import Stage

__all__ = ["Disturbances"]


class Disturbances:
    """All faults of one run. `api_delay_s`: what the API is slower by now; `occurred` counts faults."""

    def __init__(self, stage: Stage, cluster: Cluster, plan: FaultPlan, seed: np.random.SeedSequence) -> None:
        """Plan the first occurrence of every rule.

        Raises:
            UnknownName: a rule names a node, rack or zone that is not there.
        """
        self.api_delay_s = 0.0
        self.occurred = 0
        self._site = stage.site
        self._timeline = stage.timeline
        self._host = stage.host
        self._options = stage.options
        for rule, own_seed in zip(plan.rules, seed.spawn(len(plan.rules)), strict=True):
            self._plan_fault(rule.occurrences(cluster.nodes, np.random.default_rng(own_seed)))

    def _plan_fault(self, occurrences: Iterator[Fault]) -> None:
        fault = next(occurrences, None)
        if fault is not None:
            self._timeline.plan(fault.time_s, partial(self._strike, fault, occurrences))

    def _strike(self, fault: Fault, occurrences: Iterator[Fault], time_s: float) -> None:
        self.occurred += 1
        nodes = [self._site.index_of[name] for name in fault.nodes]
        match fault.rule.kind:
            case FaultKind.NODE_NOT_READY:
                for node in nodes:
                    self._silence(node, fault.rule.cause, fault.duration_s, time_s)
            case FaultKind.RACK_OUTAGE:
                for node in nodes:
                    self._silence(node, Cause.KERNEL, fault.duration_s, time_s)
            case FaultKind.SPOT_RECLAIM:
                for node in nodes:
                    self._give_notice(node, fault, time_s)
            case FaultKind.DISK_STALL | FaultKind.PCIE_LINK_DOWN:
                for node in nodes:
                    self._weaken(node, fault, time_s)
            case FaultKind.API_SLOW:
                self.api_delay_s += fault.rule.delay_s
                self._timeline.plan(time_s + fault.duration_s, partial(self._end_api, fault.rule.delay_s))
        self._plan_fault(occurrences)

    def _weaken(self, node: int, fault: Fault, time_s: float) -> None:
        """Leave a part of the node's disk or root complex, for as long as the fault lasts."""
        source = (fault.rule.kind, self.occurred)
        if fault.rule.kind is FaultKind.DISK_STALL:
            self._scale_disk(node, source, fault.rule.remaining, time_s)
            end = partial(self._scale_disk, node, source, 1.0)
        else:
            root = fault.rule.root_complex
            self._site.scale_root_complex(node, root, source, fault.rule.remaining)
            end = partial(self._end_pcie, node, root, source)
        self._timeline.plan(time_s + fault.duration_s, end)

    def _scale_disk(self, node: int, source: object, factor: float, time_s: float) -> None:
        del time_s
        self._site.scale(node, Resource.DISK, source, factor)  # its operations too

    def _end_pcie(self, node: int, root_complex: int, source: object, time_s: float) -> None:
        del time_s
        self._site.scale_root_complex(node, root_complex, source, 1.0)

    def _end_api(self, delay_s: float, time_s: float) -> None:
        del time_s
        self.api_delay_s = max(0.0, self.api_delay_s - delay_s)

    def _silence(self, node: int, cause: Cause, duration_s: float, time_s: float) -> None:
        """The node falls silent; a node that is out already stays so and the new fault is void."""
        condition = self._site.conditions[node]
        if condition.is_out or condition.is_gone:
            return
        condition.is_out = condition.comes_back = True
        condition.episode += 1
        source = ("silent", condition.episode)
        match cause:
            case Cause.KERNEL:
                self._site.stop(node)
            case Cause.NETWORK:
                condition.is_mute = True
                self._site.scale(node, Resource.NIC_UP, source, 0.0)
                self._site.scale(node, Resource.NIC_DOWN, source, 0.0)
            case Cause.STORAGE:
                condition.is_mute = True
                self._scale_disk(node, source, 0.0, time_s)
        grace_s = self._options.node_monitor_grace_s
        if grace_s < duration_s:
            self._timeline.plan(time_s + grace_s, partial(self._detect, node, condition.episode))
        self._timeline.plan(time_s + duration_s, partial(self._return, node, condition.episode, cause))

    def _detect(self, node: int, episode: int, time_s: float) -> None:
        condition = self._site.conditions[node]
        if condition.episode == episode and condition.is_out:
            self._site.taint(node, UNREACHABLE)
            give_up = partial(self._give_up, node, episode)
            self._timeline.plan(time_s + self._options.unreachable_toleration_s, give_up)

    def _give_up(self, node: int, episode: int, time_s: float) -> None:
        condition = self._site.conditions[node]
        if condition.episode == episode and condition.is_out:
            self._host.lose_pods(node, time_s)

    def _return(self, node: int, episode: int, cause: Cause, time_s: float) -> None:
        condition = self._site.conditions[node]
        if condition.episode != episode or not condition.is_out:
            return
        source = ("silent", episode)
        match cause:
            case Cause.KERNEL:
                self._host.lose_pods(node, time_s)  # the reboot took them
                self._site.resume(node)
            case Cause.NETWORK:
                self._site.scale(node, Resource.NIC_UP, source, 1.0)
                self._site.scale(node, Resource.NIC_DOWN, source, 1.0)
            case Cause.STORAGE:
                self._scale_disk(node, source, 1.0, time_s)
        condition.is_out = condition.is_mute = False
        condition.comes_back = RECLAIMED in condition.taints and condition.comes_back
        self._host.hear_from(node, time_s)
        self._site.untaint(node, UNREACHABLE)
        self._host.node_changed()

    def _give_notice(self, node: int, fault: Fault, time_s: float) -> None:
        condition = self._site.conditions[node]
        if condition.is_gone or RECLAIMED in condition.taints:
            return
        condition.comes_back = condition.comes_back or fault.duration_s > 0.0
        self._site.taint(node, RECLAIMED)
        self._timeline.plan(time_s + fault.rule.notice_s, partial(self._reclaim, node, fault.duration_s))

    def _reclaim(self, node: int, duration_s: float, time_s: float) -> None:
        condition = self._site.conditions[node]
        condition.episode += 1  # an outage that was under way is over: the machine is another one
        if condition.is_out:
            self._end_outage(node, time_s)
        self._host.lose_pods(node, time_s)
        condition.comes_back = duration_s > 0.0
        self._site.take_away(node)
        if duration_s > 0.0:
            self._timeline.plan(time_s + duration_s, partial(self._put_back, node))
        self._host.node_changed()

    def _end_outage(self, node: int, time_s: float) -> None:
        """Undo what an outage did to the hardware, whatever its cause."""
        condition = self._site.conditions[node]
        source = ("silent", condition.episode - 1)
        self._site.scale(node, Resource.NIC_UP, source, 1.0)
        self._site.scale(node, Resource.NIC_DOWN, source, 1.0)
        self._scale_disk(node, source, 1.0, time_s)
        condition.is_out = condition.is_mute = False

    def _put_back(self, node: int, time_s: float) -> None:
        del time_s
        self._site.conditions[node].comes_back = False
        self._site.put_back(node)
        self._host.node_changed()
