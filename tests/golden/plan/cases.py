"""The shared argo-examples, the ways to plan them, and what a plan may touch."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stowplan.cli.documents import read_documents
from stowplan.kube.plan import Mode, PlanOptions, Preference, Referencing

Json = dict[str, Any]

OPTIONS = {
    "binder": PlanOptions(preferences=(Preference("topology.kubernetes.io/zone", ("a", "b")),)),
    "gate": PlanOptions(mode=Mode.GATE, scheduler_name="other"),
    "extender": PlanOptions(mode=Mode.EXTENDER, priority_classes=("low", "middle", "high")),
    "strict": PlanOptions(
        mode=Mode.GATE, referencing=Referencing.STRICT, allowed_fields=frozenset({"schedulerName"})
    ),
}

_SPEC = r"/spec(/workflowSpec)?"
_LEAF = rf"{_SPEC}/templates/\d+(/(dag/tasks/\d+|steps/\d+/\d+)/inline)?"
_CONTAINER = r"(container|script|containerSet/containers/0)"
INTENDED = re.compile(
    rf"{_SPEC}/(schedulerName|podSpecPatch|affinity|podMetadata/annotations/stowplan\.io~1origin)"
    rf"|{_LEAF}/(priorityClassName|metadata/annotations/stowplan\.io~1rank-s)"
    rf"|{_LEAF}/{_CONTAINER}/resources/requests/(cpu|memory)"
)
"""Pointers of the values that a plan may add."""


def read_examples(shared_data: Path) -> dict[str, Json]:
    """The documents by file and line."""
    folder = shared_data / "argo-examples"
    return {where.removeprefix(f"{folder}/"): document for document, where in read_documents([str(folder)])}


def differences(before: object, after: object, at: str = "") -> Iterator[str]:
    """Where two documents differ: pointers of added leaves; `!POINTER` for what went, changed or moved."""
    if isinstance(before, dict) and isinstance(after, dict):
        if [key for key in after if key in before] != list(before):
            yield f"!{at}"
        for key, value in after.items():
            yield from differences(
                before.get(key), value, f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            )
    elif before is None and isinstance(after, dict) and after:
        yield from differences({}, after, at)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"!{at}"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from differences(old, new, f"{at}/{number}")
    elif before is None and after is not None:
        yield at
    elif before != after:
        yield f"!{at}"
