"""The live templates that workflows refer to.

They are kept as they came and opened when a workflow asks, in the thread that reads it: checking the types of
a large template takes longer than the event loop may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec

from stowplan.errors import InvalidObject
from stowplan.kube.api.reflection import Identity
from stowplan.kube.argo import ArgoObject, open_object
from stowplan.kube.argo.objects import Json

__all__ = ["TemplateKind", "Templates"]


class TemplateKind:
    """The templates of one kind, as a reflector tells them."""

    def __init__(self, kind: str, changed: Callable[[str], None]) -> None:
        """Keep templates of `kind`; `changed` is called with the namespace of one that came or changed."""
        self._kind = kind
        self._changed = changed
        self._raw: dict[str, bytes] = {}
        self._opened: dict[str, tuple[bytes, ArgoObject]] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._raw)

    def set(self, identity: Identity, item: bytes) -> None:
        """A template came, or changed."""
        self._raw[identity.key] = item
        self._changed(identity.namespace)

    def delete(self, identity: Identity) -> None:
        """A template is gone; graphs that were made from it stay."""
        self._raw.pop(identity.key, None)
        self._opened.pop(identity.key, None)

    def synced(self) -> None:
        """All were told."""

    def get(self, key: str) -> ArgoObject | None:
        """Return a template by `namespace/name`, or by name where the kind has no namespaces.

        Raises:
            InvalidObject: it cannot be decoded.
            MalformedWorkflow: fields of it have the wrong type.
        """
        raw = self._raw.get(key)
        if raw is None:
            return None
        known = self._opened.get(key)
        if known is not None and known[0] is raw:
            return known[1]
        try:
            body = cast("Json", msgspec.json.decode(raw, type=dict[str, object]))
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidObject(f"{self._kind} {key} cannot be decoded: {error}") from error
        opened = open_object({"apiVersion": "argoproj.io/v1alpha1", "kind": self._kind, **body})
        self._opened[key] = (raw, opened)
        return opened


class Templates:
    """A `TemplateSource` over both kinds."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the namespace of a template that came or changed; empty: it is for all."""
        self.local = TemplateKind("WorkflowTemplate", changed)
        self.cluster = TemplateKind("ClusterWorkflowTemplate", changed)

    def workflow_template(self, namespace: str, name: str) -> ArgoObject | None:
        """Return the WorkflowTemplate of that name in that namespace."""
        return self.local.get(f"{namespace}/{name}")

    def cluster_workflow_template(self, name: str) -> ArgoObject | None:
        """Return the ClusterWorkflowTemplate of that name."""
        return self.cluster.get(name)
