"""`stowplan feasible`: which nodes can take each pending pod, and why the others cannot."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from stowplan.cli.documents import read_documents
from stowplan.cli.inputs import load_rules
from stowplan.cli.terminal import say, show_table, write
from stowplan.errors import InvalidObject
from stowplan.kube.manifest import LoadedObjects, feasible_report, load_objects
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = ["report_feasible"]

_SHOWN_NODES: Final = 12


def report_feasible(files: Sequence[str], rules: Path | None, *, as_json: bool) -> None:
    """Read the objects and write the answer to standard output.

    Raises:
        InvalidInput: a file, an object or the rule table cannot be used.
    """
    table = load_rules(rules)
    loaded = _load(files)
    report = feasible_report(loaded.state, loaded.pending, rules=table)
    if loaded.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in loaded.ignored.items())
        say(f"ignored, because placement does not depend on them: {kinds}")
    if as_json:
        write(json.dumps(report, indent=2, ensure_ascii=False))
        return
    pods = cast("Mapping[str, Any]", report["pods"])
    if not pods:
        say("no pod waits for a node: every pod among the objects has one, has ended, or is being deleted")
    for key, answer in pods.items():
        show_table(_pod_table(key, answer["feasible"], answer["refused"]), ruled=False)


def _load(files: Sequence[str]) -> LoadedObjects:
    """Read all files as one set of objects; a complaint names the file if there is only one."""
    documents = [document for document, _ in read_documents(files)]
    try:
        return load_objects(documents)
    except InvalidObject as error:
        if len(files) == 1:
            raise InvalidObject(f"{files[0]}: {error}") from None
        raise


def _pod_table(key: str, feasible: Sequence[str], refused: Mapping[str, Mapping[str, str]]) -> Table:
    """Return the answer for one pod: one row per reason, with the nodes that share it.

    Nodes stand last, so that a long list widens nothing; a terminal gets the first of them, a pipe all.
    """
    total = len(feasible) + len(refused)
    nodes_of: dict[tuple[str, str], list[str]] = {}
    for node, refusal in refused.items():
        nodes_of.setdefault((refusal["filter"], refusal["reason"]), []).append(node)
    rows: list[list[Cell]] = []
    if feasible:
        rows.append(
            [Cell(f"{len(feasible):,}"), Cell("can take it", "good"), Cell(""), Cell(_listed(feasible))]
        )
    for (name, reason), nodes in sorted(nodes_of.items(), key=lambda item: (-len(item[1]), item[0])):
        rows.append([Cell(f"{len(nodes):,}"), Cell(name, "bad"), Cell(reason), Cell(_listed(nodes))])
    columns = [Column(heading, holds_words=True) for heading in ("nodes", "filter", "reason", "which")]
    return Table(f"{key}: {len(feasible):,} of {total:,} nodes can take it", columns, rows)


def _listed(nodes: Sequence[str]) -> str:
    if not sys.stdout.isatty() or len(nodes) <= _SHOWN_NODES:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:_SHOWN_NODES])} and {len(nodes) - _SHOWN_NODES:,} more"
