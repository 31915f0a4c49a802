"""`stowplan status`: what a running scheduler does now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from stowplan.cli.asking import ask
from stowplan.cli.options import OutputFormat
from stowplan.cli.terminal import show_table, write
from stowplan.errors import InvalidInput
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = ["show_status"]

Json = dict[str, Any]


def show_status(server: str, output: OutputFormat) -> int:
    """Ask the scheduler at `server` and show what it answers; return the exit code.

    Raises:
        InvalidInput: nobody answers there.
    """
    found = ask(server, "/v1/status")
    if found is None:
        raise InvalidInput(f"{server} is no scheduler; name its address with --server")
    if output is OutputFormat.JSON:
        write(json.dumps(found, indent=2))
        return 0
    found["kinds"] = _watched(found.get("kinds", {}))
    columns = (Column("what", holds_words=True), Column("now", holds_words=True))
    show_table(Table("", columns, [(Cell(name), Cell(text)) for name, text in _lines(found, "")]))
    return 0


def _watched(kinds: Mapping[str, Json]) -> Json:
    """Return how the copies of objects fare: those that are well as a number, the others by name."""
    well = [kind for kind, one in kinds.items() if one["state"] == "watching" and not one["unusable"]]
    others = {kind: one for kind, one in kinds.items() if kind not in well}
    return {"watched well": len(well), **others}


def _lines(value: Json, prefix: str) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(item, dict) and item:
            yield from _lines(cast("Json", item), f"{label} · ")
        else:
            yield label, _text(cast("object", item))


def _text(value: object) -> str:
    if value is None or value in ("", {}, []):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(
            f"{name.replace('_', ' ')} {_text(one)}" for name, one in cast("Json", value).items()
        )
    if isinstance(value, list):
        items = cast("list[object]", value)
        return ("; " if isinstance(items[0], dict) else ", ").join(map(_text, items))
    return str(value)
