"""Variables in a manifest: `{{workflow.parameters.x}}` and its like, put in where they are known.

A value that is only known at run time is the text with its `{{…}}` left in place, as Argo itself leaves it,
so that what cannot be known carries the reason with it wherever it is passed. Expressions (`{{=…}}`) are
evaluated where they are a plain reference to a variable, and left in place otherwise.

Source: Argo Workflows 4.0, `util/template` (tags), `operator.go` (setGlobalParameters).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from stowplan.errors import InvalidWorkflow

__all__ = ["Variables", "go_text", "has_variable", "put_in", "tags_in", "variables_in"]

_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:'[^'\\]*'|\"[^\"\\]*\")\])*", re.ASCII)
_INDEX: Final = re.compile(r"\[(?:'([^'\\]*)'|\"([^\"\\]*)\")\]")
_LARGEST: Final = 4 * 1024 * 1024  # characters of one text after substitution

Variables = Mapping[str, str]
"""Known values by name (`workflow.parameters.x`)."""


def has_variable(text: str) -> bool:
    """Tell whether a text still has a variable in it."""
    return next(_tags(text), None) is not None


def go_text(value: object) -> str:
    """Return a parameter's value as the text that Go's `AnyString` makes of it.

    Whole numbers lose their fraction (`1.0` is `1`), booleans are lower case; lists and mappings are JSON
    (the API has none there, a Python caller may).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 2**63:
            return str(int(value))
        return repr(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _tags(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each tag begins and ends, braces included."""
    start = text.find("{{")
    while start >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            return
        yield start, end + 2
        start = text.find("{{", end + 2)


def variables_in(text: str) -> tuple[str, ...]:
    """Return the variables that are left in a text, without braces, in order."""
    return tuple(dict.fromkeys(text[start + 2 : end - 2].strip() for start, end in _tags(text)))


def tags_in(value: object) -> frozenset[str]:
    """Return the variables anywhere in a JSON value, keys included."""
    found: set[str] = set()
    _collect(value, found)
    return frozenset(found)


def _collect(value: object, found: set[str]) -> None:
    if isinstance(value, str):
        if "{{" in value:
            found.update(variables_in(value))
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            _collect(key, found)
            _collect(item, found)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _collect(item, found)


def _referenced(expression: str) -> str | None:
    """Return the variable's name that a plain reference of an expression means."""
    if _REFERENCE.fullmatch(expression) is None:
        return None
    return _INDEX.sub(lambda match: "." + (match[1] if match[1] is not None else match[2]), expression)


def _known(tag: str, variables: Variables) -> str | None:
    if tag.startswith("="):
        name = _referenced(tag[1:].strip())
        return variables.get(name) if name is not None else None
    return variables.get(tag.strip())


def _text(text: str, variables: Variables) -> str:
    parts: list[str] = []
    done = 0
    size = len(text)
    for start, end in _tags(text):
        value = _known(text[start + 2 : end - 2], variables)
        if value is not None:
            parts += (text[done:start], value)
            done = end
            size += len(value)
            if size > _LARGEST:  # a value that doubles at every call would fill any memory
                raise InvalidWorkflow(
                    f"the text {text[:60]!r} grows beyond {_LARGEST} characters with its variables put in; "
                    "pass large values as artifacts"
                )
    return "".join((*parts, text[done:])) if parts else text


def put_in(value: object, variables: Variables) -> object:
    """Return a JSON value with every known variable put in; parts without one are shared, not copied.

    Raises:
        InvalidWorkflow: a text grows beyond all measure.
    """
    if isinstance(value, str):
        return _text(value, variables) if "{{" in value else value
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        changed = {key: put_in(item, variables) for key, item in entries.items()}
        if any("{{" in key for key in entries):
            return {cast("str", put_in(key, variables)): item for key, item in changed.items()}
        return changed if any(changed[key] is not entries[key] for key in entries) else entries
    if isinstance(value, list):
        items = cast("list[object]", value)
        replaced = [put_in(item, variables) for item in items]
        return replaced if any(new is not old for new, old in zip(replaced, items, strict=True)) else items
    return value
