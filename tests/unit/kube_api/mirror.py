"""A receiver that holds what it is told, and objects to anything that it should not be told."""

from typing import Any

from stowplan.kube.api.reflection import Identity


class Mirror:
    """What a reflector told: at any moment each object at most once, and each version once."""

    def __init__(self) -> None:
        self.objects: dict[str, Identity] = {}
        self.items: dict[str, Any] = {}
        self.told: list[tuple[str, str, str]] = []
        self.syncs = 0

    def set(self, identity: Identity, item: Any) -> None:  # noqa: ANN401 - whatever the reader made
        known = self.objects.get(identity.key)
        if known is not None:
            assert known.uid == identity.uid, f"{identity} follows {known}, whose end was not told"
            assert int(known.resource_version) < int(identity.resource_version), f"{identity} after {known}"
        self.objects[identity.key] = identity
        self.items[identity.key] = item
        self.told.append(("set", identity.key, identity.resource_version))

    def delete(self, identity: Identity) -> None:
        assert self.objects[identity.key] == identity, f"{identity} is not what was told last"
        del self.objects[identity.key], self.items[identity.key]
        self.told.append(("delete", identity.key, identity.resource_version))

    def synced(self) -> None:
        self.syncs += 1

    def versions(self) -> dict[str, str]:
        """Resource version by key."""
        return {key: identity.resource_version for key, identity in self.objects.items()}
