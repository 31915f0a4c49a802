"""What a scheduler did to make room for a pod, as the API server shows it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.spec import Json

__all__ = ["RoomMade", "room_between"]


@dataclass(frozen=True, slots=True)
class RoomMade:
    """What preemption did for one pod.

    Attributes:
        node: The node that the pod is nominated for; empty for none.
        victims: Pods that were ended and marked for it, or are gone.
        withdrawn: Other pods that were nominated for a node and are not any more.
    """

    node: str
    victims: frozenset[str]
    withdrawn: frozenset[str]


def room_between(before: Mapping[str, Json], after: Mapping[str, Json], key: str) -> RoomMade:
    """Return what was done for the pod `namespace/name`, by the pods as they were and as they are."""
    withdrawn = {one for one, pod in before.items() if _nominated(pod) and not _nominated(after.get(one, {}))}
    return RoomMade(
        node=_nominated(after[key]),
        victims=frozenset(
            one
            for one, pod in before.items()
            if "deletionTimestamp" not in pod["metadata"] and _is_ended(after.get(one))
        ),
        withdrawn=frozenset(withdrawn - {key}),
    )


def _nominated(pod: Json) -> str:
    return pod.get("status", {}).get("nominatedNodeName", "")


def _is_ended(pod: Json | None) -> bool:
    """Tell whether a pod that was there is gone, or is marked and being deleted."""
    if pod is None:
        return True
    marks = [one for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"]
    is_marked = any((one["status"], one["reason"]) == ("True", "PreemptionByScheduler") for one in marks)
    return is_marked and "deletionTimestamp" in pod["metadata"]
