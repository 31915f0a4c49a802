"""Server-side apply: say which fields an object must have, and own those and no others.

Source: kubernetes.io/docs/reference/using-api/server-side-apply.
"""

from typing import Any

from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.resources import Resource

__all__ = ["FIELD_MANAGER", "apply"]

FIELD_MANAGER = "stowplan"

Json = dict[str, Any]


async def apply(
    client: ApiClient,
    resource: Resource,
    name: str,
    fields: Json,
    namespace: str | None = None,
    *,
    force: bool = False,
) -> bytes:
    """Create the object, or give it these fields; what was applied before and is not said again is removed.

    Args:
        client: Where.
        resource: Its kind.
        name: Its name.
        fields: The fields, without kind, version and name, which are added.
        namespace: Its namespace; None for kinds without.
        force: Take fields that another manager owns.

    Raises:
        Conflict: Another manager owns a field; the message names both.
        KubernetesError: It could not be applied.
    """
    metadata: Json = {**fields.get("metadata", {}), "name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    body = {**fields, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    patch = Patch(PatchKind.APPLY, body, field_manager=FIELD_MANAGER, force=force)
    return await client.patch(resource, name, patch, namespace)
