"""Binder mode: the pod's volumes first, then the pod, by the API's binding call.

Only so many placements are at the API server at once; a placement that waits for its volumes takes no turn
meanwhile, as that may last minutes.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.core.decoder import Placed
from stowplan.kube.api.binder import Binder, Binding
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.interface import ActOutcome
from stowplan.serve.scheduler.turns import AT_ONCE, Turns
from stowplan.serve.scheduler.volumes import VolumeClaimer

__all__ = ["BinderActuator"]

Annotations = Callable[[LivePod, Placed], tuple[tuple[str, str], ...]]


def _none(pod: LivePod, placed: Placed) -> tuple[tuple[str, str], ...]:
    del pod, placed
    return ()


class BinderActuator:
    """Binds pods.

    Args:
        binder: binds one pod.
        volumes: claims the volumes that a pod takes with its node.
        at_once: placements that may be at the API server at once.
        annotations: what a pod is given with its binding.
    """

    reserves = True
    binds = True

    def __init__(
        self,
        binder: Binder,
        volumes: VolumeClaimer,
        *,
        at_once: int = AT_ONCE,
        annotations: Annotations = _none,
    ) -> None:
        self._binder = binder
        self._volumes = volumes
        self._turns = Turns(at_once)
        self._annotations = annotations

    @property
    def backlog(self) -> int:
        """Placements that wait for their turn."""
        return self._turns.waiting

    def seen(self, pod: LivePod) -> LivePod:
        """Return the pod as it is."""
        return pod

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        """Bind the pod, and tell what became of it."""
        if placed.storage:
            refused = await self._volumes.claim(pod, placed)
            if refused is not None:
                return refused
        binding = Binding(pod.namespace, pod.name, pod.uid, placed.node_name, self._annotations(pod, placed))
        async with self._turns:
            return await self._binder.bind(binding)
