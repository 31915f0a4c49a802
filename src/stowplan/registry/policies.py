"""Policies by name and plain options, where the option `model` is a folder: what the core cannot read.

`core.policy.make_policy` takes a release as it is in memory. Configuration files, the command line and
records of decisions have plain data: for them, `model` is the folder of a release, and `digest` the one that
it must have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stowplan.core.policy import Policy
from stowplan.core.policy import make_policy as make_of_release
from stowplan.errors import InvalidInput
from stowplan.registry.reading import load_release

__all__ = ["PolicyMaker", "make_policy", "resolved_options"]

_LEARNED: Final = "learned"


def make_policy(name: str, **options: Any) -> Policy:  # noqa: ANN401  (each policy has its own options)
    """Make a policy by name, as `core.policy.make_policy` does, of plain options.

    Raises:
        UnknownName: there is no such policy, or it has no such option.
        InvalidInput: an option has a value that it cannot have, or the release cannot be used.
    """
    return make_of_release(name, **resolved_options(name, options))


def resolved_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a policy for the core: folders of releases are read, also for a policy in it.

    Raises:
        InvalidInput: the release cannot be used.
    """
    found = dict(options)
    if name == _LEARNED:
        digest = found.pop("digest", None)
        folder = found.get("model")
        if folder is None:
            return found
        if not isinstance(folder, str | Path) or not (digest is None or isinstance(digest, str)):
            raise InvalidInput(
                f"options of policy {name!r}: model is {folder!r} and digest {digest!r}; give the path of a "
                "release, and its digest or none"
            )
        found["model"] = load_release(Path(folder), expected=digest)
    elif "policy" in found:
        inner: Mapping[str, Any] = found.get("options") or {}
        found["options"] = resolved_options(str(found["policy"]), inner)
    return found


@dataclass(frozen=True, slots=True)
class PolicyMaker:
    """Makes policies by name with options given beforehand; it can be sent to another process.

    Attributes:
        options: plain options by the name of the policy.
    """

    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def __call__(self, name: str) -> Policy:
        """Make the policy `name`; raises what `make_policy` does."""
        return make_policy(name, **self.options.get(name, {}))
