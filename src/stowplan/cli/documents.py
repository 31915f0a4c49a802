"""Kubernetes objects as text: YAML or JSON, one or many documents, from files, folders or standard input.

Kubernetes reads YAML as `sigs.k8s.io/yaml` does (its fork of go-yaml v2, then JSON), and so do we: yes/no,
on/off and y/n are booleans, 0644 is octal, timestamps stay text, keys become text. PyYAML's own rules differ
(it would make dates of timestamps and minutes of `1:30`), so its C parser is used with resolvers of our own.
A key that is given twice is refused, as the API server does under strict field validation: which of the two
counts would be a guess.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import yaml

from stowplan.errors import InvalidFile

__all__ = ["RESOLVERS", "parse_documents", "read_documents"]

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MOST_VALUES: Final = 20_000_000  # with aliases written out; the largest clusters have a tenth of that
_STANDARD_INPUT: Final = "-"

_TRUE: Final = frozenset({"y", "yes", "true", "on"})
_BOOL: Final = re.compile(
    r"(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)", re.ASCII
)
_NULL: Final = re.compile(r"(?:~|null|Null|NULL|)", re.ASCII)
_INT: Final = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)", re.ASCII
)
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_MERGE: Final = re.compile(r"<<")


def read_documents(paths: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield every document and where it stands (`file:line`), in the order of `paths`; `-` is standard input.

    A folder stands for the YAML and JSON files in it and below it, in order of name.

    Raises:
        InvalidFile: a path is missing, unreadable, a folder without such files, or holds no document.
    """
    for path in paths:
        if path == _STANDARD_INPUT:
            yield from parse_documents(_decoded(sys.stdin.buffer.read(), "standard input"), "standard input")
            continue
        for file in _files(Path(path)):
            try:
                raw = file.read_bytes()
            except OSError as error:
                raise InvalidFile(f"{file}: cannot be read ({error.strerror}); check the path") from None
            yield from parse_documents(_decoded(raw, str(file)), str(file))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in _SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        raise InvalidFile(f"{path}: the folder holds no {', '.join(_SUFFIXES)} file; name one that does")
    return found


def _decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"{name}:{line}: is not text in UTF-8; save it as UTF-8") from None


def parse_documents(text: str, name: str) -> list[tuple[Any, str]]:
    """Return the documents of a text that are not empty, each with where it begins (`name:line`).

    Raises:
        InvalidFile: neither YAML nor JSON, a key given twice, or nothing in it; says the line.
    """
    if text.lstrip()[:1] in ("{", "["):
        documents = _parse_json(text, name)
        if documents is not None:
            return documents
    documents = list(_parse_yaml(text, name))
    if not documents:
        raise InvalidFile(f"{name}: holds no document; give Kubernetes objects as YAML or JSON")
    return documents


def _parse_json(text: str, name: str) -> list[tuple[Any, str]] | None:
    """Return the JSON documents, one after the other; None if the text is a flow of YAML instead."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
    documents: list[tuple[Any, str]] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        line = text.count("\n", 0, position) + 1
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if _is_yaml(text):
                return None
            raise InvalidFile(
                f"{name}:{error.lineno}: is not complete JSON ({error.msg}); repair it"
            ) from None
        except _Refused as error:
            raise InvalidFile(f"{name}: {error}; the document begins in line {line}") from None
        except RecursionError:
            raise InvalidFile(f"{name}:{line}: is nested too deeply to be Kubernetes objects") from None
        documents.append((document, f"{name}:{line}"))
    return documents


class _Refused(ValueError):
    """A part of a document that Kubernetes would refuse; the message names it."""


def _unique_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise _Refused(f"key {key!r} is given twice; keep one")
        unique[key] = value
    return unique


def _refuse_constant(word: str) -> float:
    raise _Refused(f"{word} is no number; write a finite one")


def _is_yaml(text: str) -> bool:
    try:
        for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
            pass
    except (yaml.YAMLError, RecursionError):
        return False
    return True


_PREFIX: Final = "tag:yaml.org,2002:"
_IMPLICIT: Final = (
    ("bool", _BOOL, "yYnNtTfFoO"),
    ("null", _NULL, ("~", "n", "N", "")),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+0123456789."),
    ("merge", _MERGE, "<"),
)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return, by first character, the tags that a plain word may get and what it must look like."""
    by_first: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first in _IMPLICIT:
        whole = re.compile(rf"(?:{pattern.pattern})\Z", re.ASCII)
        for character in first:
            by_first.setdefault(character, []).append((_PREFIX + name, whole))
    return by_first


RESOLVERS: Final = _resolvers()
"""The implicit types of go-yaml v2: by first character, the tag of a plain word and what it looks like."""


class _KubernetesLoader(yaml.CSafeLoader):
    """PyYAML's C parser with the implicit types of go-yaml v2; only its nodes are used, not its objects."""

    yaml_implicit_resolvers: dict[Any, Any] = RESOLVERS


def _parse_yaml(text: str, name: str) -> Iterator[tuple[Any, str]]:
    try:
        loader = _KubernetesLoader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            where = f"{name}:{node.start_mark.line + 1}"
            objects = _Objects()
            document = objects.value_of(node)
            if document is None:
                continue
            if objects.written_out(node) > _MOST_VALUES:
                raise InvalidFile(f"{where}: its aliases write out to more than {_MOST_VALUES:,} values")
            yield document, where
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        raise InvalidFile(
            f"{place}: is not usable YAML ({error.problem or error.context}); repair it"
        ) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidFile(f"{name}: is not usable YAML ({' '.join(str(error).split())}); repair it") from None
    except RecursionError:
        raise InvalidFile(f"{name}: is nested too deeply to be Kubernetes objects") from None


class _Objects:
    """Makes values of the nodes of one document; what an alias names is made once and shared."""

    def __init__(self) -> None:
        self._made: dict[yaml.Node, Any] = {}
        self._size: dict[yaml.Node, int] = {}
        self._open: set[yaml.Node] = set()

    def value_of(self, node: yaml.Node) -> Any:  # noqa: ANN401 (a value of JSON)
        """Return the value.

        Raises:
            yaml.MarkedYAMLError: a tag or key that JSON has not, a key given twice, or a value inside itself.
        """
        if node in self._made:
            return self._made[node]
        if node in self._open:
            raise _problem("an alias stands inside what it names", node)
        self._open.add(node)
        match node:
            case yaml.ScalarNode():
                value = _scalar(node)
            case yaml.SequenceNode():
                value = [self.value_of(item) for item in cast("list[yaml.Node]", node.value)]
            case yaml.MappingNode():
                value = self._mapping(node)
            case _:
                raise _problem("neither a word, a list nor a mapping", node)
        self._open.discard(node)
        self._made[node] = value
        return value

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if key_node.tag == _PREFIX + "merge":
                merged = {**self._merge(value_node), **merged}
                continue
            key = _key(key_node)
            if key in own:
                raise _problem(f"key {key!r} is given twice", key_node)
            own[key] = self.value_of(value_node)
        return {**merged, **own}

    def _merge(self, node: yaml.Node) -> dict[str, Any]:
        value = self.value_of(node)
        merged: dict[str, Any] = {}
        for part in reversed(cast("list[Any]", value if isinstance(value, list) else [value])):
            if not isinstance(part, dict):
                raise _problem("<< takes mappings", node)
            merged |= cast("dict[str, Any]", part)
        return merged

    def written_out(self, node: yaml.Node) -> int:
        """Count the values of a document as if every alias were written out; the time is that of its text."""
        if isinstance(node, yaml.ScalarNode):
            return 1
        size = self._size.get(node)
        if size is None:
            parts = cast("list[Any]", node.value)
            nodes = [part[1] for part in parts] if isinstance(node, yaml.MappingNode) else parts
            size = self._size[node] = 1 + sum(map(self.written_out, nodes))
        return size


def _problem(words: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=node.start_mark)


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    text = str(node.value)
    match node.tag.removeprefix(_PREFIX):
        case "str" | "merge":
            return text
        case "null":
            return None
        case "bool" if _BOOL.fullmatch(text):
            return text.lower() in _TRUE
        case "int" if _INT.fullmatch(text):
            return _whole_number(text.replace("_", ""))
        case "float" if _FLOAT.fullmatch(text):
            number = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            if math.isfinite(number):
                return number
            raise _problem(f"{text} is no finite number", node)
        case tag:
            raise _problem(f"{text[:40]!r} cannot be a value of the type {tag!r}", node)


def _whole_number(text: str) -> int:
    digits = text.lstrip("+-")
    is_old_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    magnitude = int(digits, 8) if is_old_octal else int(digits, 0)
    return -magnitude if text.startswith("-") else magnitude


def _key(node: yaml.Node) -> str:
    """Return a key as JSON has it: text. `yes: 1` has the key "true"."""
    value = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    match value:
        case None:
            raise _problem("a key must be a word or a number", node)
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
