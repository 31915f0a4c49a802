"""Strategic merge of JSON values, as the controller merges defaults, references and pod patches.

Mappings are merged, lists are replaced, except those whose elements have an identity (containers by name …),
which are merged element by element; null deletes; `$patch: replace` and `$patch: delete` are honoured.

Source: Kubernetes API conventions (strategic merge patch); merge keys of `core/v1` types and of Argo's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

__all__ = ["CONTAINER", "POD_SPEC", "WORKFLOW", "MergeKeys", "merged"]

MergeKeys = Mapping[str, str]
"""By the name of a list field, the key that identifies its elements."""

CONTAINER: Final[MergeKeys] = {
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
POD_SPEC: Final[MergeKeys] = {
    **CONTAINER,
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
}
# Argo's own types: unlike in a pod, tolerations have a key, and the containers of a container set have none.
WORKFLOW: Final[MergeKeys] = {
    **CONTAINER,
    "templates": "name",
    "volumes": "name",
    "initContainers": "name",
    "sidecars": "name",
    "tolerations": "key",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "parameters": "name",
    "artifacts": "name",
    "tasks": "name",
}


def merged(base: object, patch: object, keys: MergeKeys) -> object:
    """Return `base` with `patch` applied; neither is changed, untouched parts are shared."""
    if not isinstance(patch, Mapping):
        return patch
    changes = cast("Mapping[str, object]", patch)
    if changes.get("$patch") == "replace" or not isinstance(base, Mapping):
        return {key: value for key, value in changes.items() if key != "$patch" and value is not None}
    whole = dict(cast("Mapping[str, object]", base))
    for key, value in changes.items():
        if key.startswith("$"):
            continue
        if value is None:
            whole.pop(key, None)
        elif key in keys and _is_list(value):
            whole[key] = _merged_list(whole.get(key), cast("list[object]", value), keys[key], keys)
        else:
            whole[key] = merged(whole.get(key), value, keys)
    return whole


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _merged_list(base: object, patch: list[object], identity: str, keys: MergeKeys) -> list[object]:
    whole = list(cast("list[object]", base)) if isinstance(base, list) else []
    directives = [_directive(item) for item in patch]
    if "replace" in directives:
        return [item for item, directive in zip(patch, directives, strict=True) if directive != "replace"]
    changed: list[tuple[int | None, object]] = []  # where it was, and what it has become
    taken: set[int] = set()
    for item, directive in zip(patch, directives, strict=True):
        place = next((at for at, old in enumerate(whole) if _same(old, item, identity)), None)
        if place is not None:
            taken.add(place)
        if directive != "delete":
            changed.append((place, merged(None if place is None else whole[place], item, keys)))
    # The patch's order is kept, and a new element stands before all that the patch does not name.
    kept = [(at, old) for at, old in enumerate(whole) if at not in taken]
    result: list[object] = []
    for place, item in changed:
        while kept and place is not None and kept[0][0] < place:
            result.append(kept.pop(0)[1])
        result.append(item)
    return result + [old for _, old in kept]


def _directive(item: object) -> object:
    return cast("Mapping[str, object]", item).get("$patch") if isinstance(item, Mapping) else None


def _same(left: object, right: object, identity: str) -> bool:
    if not (isinstance(left, Mapping) and isinstance(right, Mapping)):
        return False
    value = cast("Mapping[str, object]", left).get(identity)
    return value is not None and value == cast("Mapping[str, object]", right).get(identity)
