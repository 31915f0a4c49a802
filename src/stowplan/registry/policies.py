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
from stowplan.core.policy.learned import Release
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.registry.reading import load_release

__all__ = ["PolicyMaker", "make_policy", "pinned_options", "resolved_options"]

_LEARNED: Final = "learned"


def make_policy(name: str, **options: Any) -> Policy:  # noqa: ANN401  (each policy has its own options)
    """Make a policy by name, as `core.policy.make_policy` does, of plain options.

    Raises:
        UnknownName: there is no such policy, or it has no such option.
        InvalidInput: an option has a value that it cannot have, or the release cannot be used.
    """
    return make_of_release(name, **resolved_options(name, options))


def resolved_options(name: str, options: Mapping[str, Any], *, defers: bool = False) -> dict[str, Any]:
    """Return the options of a policy for the core: folders of releases are read, also for a policy in it.

    Args:
        name: of the policy.
        options: plain.
        defers: whether a release that cannot be used is only told when a plan is asked for: the policy then
            raises why, and a fallback decides.

    Raises:
        InvalidInput: the release cannot be used, and `defers` is not set; or the options are not plain.
    """
    found = dict(options)
    if name == _LEARNED and "model" in found:
        folder, digest = found["model"], found.pop("digest", None)
        if not isinstance(folder, str | Path) or not (digest is None or isinstance(digest, str)):
            raise InvalidInput(
                f"options of policy {name!r}: model is {folder!r} and digest {digest!r}; give the path of a "
                "release, and its digest or none"
            )
        try:
            found["model"] = load_release(Path(folder), expected=digest)
        except InvalidFile as error:
            if not defers:
                raise
            found["model"] = error
    elif "policy" in found:
        found["options"] = resolved_options(*_inner(found), defers=defers)
    return found


def pinned_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain options with the digest of the release that is at `model` now, for records.

    A release that cannot be used has none.
    """
    found = dict(options)
    if name == _LEARNED and "digest" not in found:
        model = resolved_options(name, found, defers=True).get("model")
        if isinstance(model, Release):
            found["digest"] = model.digest
    elif "policy" in found:
        found["options"] = pinned_options(*_inner(found))
    return found


def _inner(options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return str(options["policy"]), options.get("options") or {}


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
