"""Where trace files are opened: plain or gzip, whole or refused with what is wrong and what to do.

Readers themselves are pure functions over the text. Whether a file is gzip is seen from its first two bytes,
never from its name.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stowplan.errors import InvalidFile

__all__ = ["data_files", "file_stem", "parse_csv", "parse_json", "parse_yaml", "read_text"]

_GZIP_MAGIC: Final = b"\x1f\x8b"
_LARGEST_BYTES: Final = 1 << 30  # unpacked; the largest known instance of any supported format has 30 MB


def data_files(folder: Path) -> tuple[Path, ...]:
    """Return the files under a folder, sorted by path, without hidden files and plain documentation.

    Raises:
        InvalidFile: there are none.
    """
    files = tuple(sorted(file for file in folder.rglob("*") if file.is_file() and not _is_aside(file)))
    if not files:
        raise InvalidFile(
            f"{folder}: is a folder without data files; name a folder that has some, or one file"
        )
    return files


def _is_aside(file: Path) -> bool:
    return file.name.startswith(".") or file.suffix.lower() in {".md", ".txt", ".rst"}


def file_stem(name: str) -> str:
    """Return the last part of a path without `.gz` and the suffix before it."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gz")
    return last.rsplit(".", 1)[0] if "." in last.strip(".") else last


def read_text(path: Path) -> str:
    """Return the text of a file, unpacked when it is gzip.

    Raises:
        InvalidFile: the file is missing, a folder, unreadable, empty, truncated, larger than 1 GiB, or not
        UTF-8.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InvalidFile(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise InvalidFile(f"{path}: is a folder where a file is needed; name one of its files") from None
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if raw.startswith(_GZIP_MAGIC):
        raw = _unpack(path, raw)
    if not raw.strip():
        raise InvalidFile(f"{path}: is empty; give a file with content")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path}: is not text in UTF-8 (byte {error.start}); give a text file") from None


def _unpack(path: Path, raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            content = stream.read(_LARGEST_BYTES + 1)
    except EOFError:
        raise InvalidFile(
            f"{path}: the gzip data ends too early; the file is truncated, fetch it again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidFile(f"{path}: the gzip data is damaged ({error}); fetch the file again") from None
    if len(content) > _LARGEST_BYTES:
        raise InvalidFile(f"{path}: unpacks to more than 1 GiB; split it")
    return content


def parse_json(text: str, name: str) -> Any:  # noqa: ANN401  (JSON is any; readers check the types they need)
    """Return the parsed JSON of `text`; `name` is the file in messages.

    Raises:
        InvalidFile: not JSON, or truncated.
    """
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise InvalidFile(
            f"{name}: is not complete JSON ({error}); the file is truncated or damaged, fetch it again"
        ) from None


def parse_csv(text: str, name: str, *, needs: Sequence[str], delimiter: str = ",") -> list[dict[str, str]]:
    """Return the rows of a CSV with a header as dictionaries; `name` is the file in messages.

    Raises:
        InvalidFile: a column of `needs` is missing, there is no row, or a row is longer or shorter than the
        header.
    """
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        header = next(reader)
        missing = [column for column in needs if column not in header]
        if missing:
            raise InvalidFile(
                f"{name}: has no column {missing[0]!r}; its columns are {', '.join(header[:12])}"
            )
        rows: list[dict[str, str]] = []
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                raise InvalidFile(
                    f"{name}: line {reader.line_num} has {len(values)} fields, the header {len(header)}; "
                    "the file is truncated or damaged"
                )
            rows.append(dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise InvalidFile(
            f"{name}: line {reader.line_num} is not CSV ({error}); repair or remove the line"
        ) from None
    if not rows:
        raise InvalidFile(f"{name}: has a header but no rows; give a file with content")
    return rows


class _StrictLoader(yaml.SafeLoader):
    """YAML without surprises: a key given twice is an error, where PyYAML would silently keep the last."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> Mapping[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key: Any = loader.construct_object(key_node, deep=True)  # pyright: ignore[reportUnknownMemberType]
        if isinstance(key, list | dict):
            raise yaml.constructor.ConstructorError(
                None, None, "a key must be a plain word", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def parse_yaml(text: str, name: str) -> list[Any]:
    """Return the non-empty documents of a YAML text; `name` is the file in messages.

    Raises:
        InvalidFile: not YAML, a key given twice in one mapping, or no document.
    """
    try:
        documents = [
            document for document in yaml.load_all(text, Loader=_StrictLoader) if document is not None
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        raise InvalidFile(
            f"{place}: is not usable YAML ({error.problem or error.context}); repair it"
        ) from None
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise InvalidFile(f"{name}: is not usable YAML ({detail}); repair it") from None
    except RecursionError:
        raise InvalidFile(f"{name}: is nested too deeply to be a description; flatten it") from None
    if not documents:
        raise InvalidFile(f"{name}: holds no YAML document; give a file with content")
    return documents
