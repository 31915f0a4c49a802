"""Kubernetes objects back into YAML, so that whoever reads it gets the same values.

A plain word means different things to PyYAML, to Kubernetes' fork of go-yaml and to YAML 1.2 (`no`, `1:30`,
`0o14`, dates): a text is quoted wherever any of them would read something else. Comments, anchors and the
author's line breaks are not in the values and so not in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

from stowplan.cli.documents import RESOLVERS

__all__ = ["yaml_text"]

_WIDTH: Final = 4096  # long lines are not folded: scripts and patches are easier to read whole


def _either_rule() -> dict[str, list[tuple[str, Any]]]:
    """Return by first character the tags that a plain word may get by Kubernetes' rules or by PyYAML's."""
    theirs: dict[str, list[tuple[str, Any]]] = yaml.resolver.Resolver.yaml_implicit_resolvers
    keys = dict.fromkeys([*RESOLVERS, *theirs])
    return {key: [*RESOLVERS.get(key, ()), *theirs.get(key, ())] for key in keys}


class _Writer(yaml.CSafeDumper):
    """PyYAML's C emitter with both rules, and without anchors."""

    yaml_implicit_resolvers: dict[Any, Any] = _either_rule()

    def ignore_aliases(self, data: object) -> bool:
        """Write out what stands in several places."""
        del data
        return True


def _text(writer: _Writer, text: str) -> yaml.ScalarNode:
    """Write text of many lines as a block, which keeps scripts readable."""
    style = "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]  (the stub leaves the value's type out)


_Writer.add_representer(str, _text)


def yaml_text(documents: Iterable[object]) -> str:
    """Return documents as one YAML text, keys in the order that they have."""
    return yaml.dump_all(  # pyright: ignore[reportUnknownMemberType]  (the stub leaves the width's type out)
        documents,
        Dumper=_Writer,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=False,
    )
