"""`--policy-option POLICY.NAME=VALUE`: what a policy is told, on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from stowplan.errors import InvalidInput
from stowplan.registry import PolicyMaker

__all__ = ["policy_maker"]


def policy_maker(given: Sequence[str], policies: Sequence[str]) -> PolicyMaker:
    """Return what makes `policies` with the options of the command line.

    Args:
        given: each as POLICY.NAME=VALUE; values are read as YAML: numbers, true, false, or text.
        policies: names of those that will be made.

    Raises:
        InvalidInput: an option is not of that form, is given twice, or is of a policy that is not made.
    """
    options: dict[str, dict[str, Any]] = {}
    for text in given:
        name, is_set, value = text.partition("=")
        policy, _, option = name.rpartition(".")
        if not (is_set and policy and option):
            raise InvalidInput(
                f"--policy-option {text!r} is not of the form POLICY.NAME=VALUE; for example: "
                "learned.model=models/mine"
            )
        if policy not in policies:
            raise InvalidInput(
                f"--policy-option {text!r} is for policy {policy!r}, which is not run; "
                f"run it, or give options of {', '.join(policies)}"
            )
        of_policy = options.setdefault(policy, {})
        if option in of_policy:
            raise InvalidInput(f"--policy-option {name} is given twice; give it once")
        try:
            of_policy[option] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise InvalidInput(
                f"--policy-option {text!r} has a value that cannot be read; put it in quotes"
            ) from None
    return PolicyMaker(options)
