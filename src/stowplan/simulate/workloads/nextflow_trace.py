"""Rows of a Nextflow execution trace with raw values (`trace.raw = true`): milliseconds, bytes, percent.

Both separators occur (`;` and `,`). Two traps of real files: an unquoted separator inside `tag`, which
Nextflow repeats inside `name`, and `-` for what was not measured. A trace without raw values ("2.3 GB", "1m
3s") is refused: the numbers are rounded there.

What may have run: COMPLETED and FAILED rows with a run time; CACHED rows did not run.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import Final

from stowplan.errors import InvalidFile

__all__ = ["TraceRow", "parse_trace"]

_NEEDS: Final = (
    "task_id", "process", "name", "status", "cpus", "memory", "submit", "start", "complete", "realtime",
    "%cpu", "peak_rss", "read_bytes", "write_bytes",
)  # fmt: skip
_ABSENT: Final = ("-", "")
_RAN: Final = ("COMPLETED", "FAILED", "ABORTED")
_STATUSES: Final = (*_RAN, "CACHED")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One execution that ran. Times are seconds since the epoch; None: the trace does not say."""

    task_id: str
    process: str
    tag: str
    name: str
    node: str
    is_completed: bool
    cores: float
    memory_bytes: float | None
    submit_s: float
    start_s: float
    complete_s: float
    runtime_s: float
    mean_cores: float | None
    peak_memory_bytes: float | None
    read_bytes: float | None
    written_bytes: float | None


def parse_trace(text: str, name: str) -> tuple[tuple[TraceRow, ...], tuple[str, ...]]:
    """Return the executions that ran, and notes on the rows left out; `name` is the file in messages.

    Raises:
        InvalidFile: a column is missing, a value is not raw or unusable, a line is damaged, or nothing ran.
    """
    first_line = text.split("\n", 1)[0]
    delimiter = max((";", ",", "\t"), key=first_line.count)
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    header = next(lines)
    missing = [column for column in _NEEDS if column not in header]
    if missing:
        raise InvalidFile(f"{name}: has no column {missing[0]!r}; add it to trace.fields of the Nextflow run")
    rows: list[TraceRow] = []
    left_out: dict[str, int] = {}
    for values in lines:
        if not values:
            continue
        where = f"{name}: line {lines.line_num}"
        fields = _fields(header, values, delimiter, where)
        status = fields["status"]
        if status not in _STATUSES:
            raise InvalidFile(f"{where}: status is {status!r}; it must be one of {', '.join(_STATUSES)}")
        row = _row(fields, where) if status in _RAN else None
        if row is None:
            why = (
                "were cached and did not run"
                if status == "CACHED"
                else f"{status.lower()} without a run time"
            )
            left_out[why] = left_out.get(why, 0) + 1
        else:
            rows.append(row)
    if not rows:
        raise InvalidFile(f"{name}: no task in it ran; give the trace of a run that executed something")
    notes = tuple(f"left out: {count} tasks that {why}" for why, count in sorted(left_out.items()))
    return tuple(rows), notes


def _fields(header: list[str], values: list[str], delimiter: str, where: str) -> dict[str, str]:
    """Pair a line with the header, repairing separators inside `tag`, which `name` repeats."""
    extra = len(values) - len(header)
    if extra > 0 and extra % 2 == 0 and "tag" in header and header.index("name") == header.index("tag") + 1:
        at, each = header.index("tag"), extra // 2 + 1
        tag, task_name = values[at : at + each], values[at + each : at + 2 * each]
        values = [*values[:at], delimiter.join(tag), delimiter.join(task_name), *values[at + 2 * each :]]
        extra = 0
    if extra:
        raise InvalidFile(
            f"{where} has {len(values)} fields, the header {len(header)}; the file is truncated or damaged"
        )
    return dict(zip(header, values, strict=True))


def _row(fields: dict[str, str], where: str) -> TraceRow | None:
    def number(column: str) -> float | None:
        written = fields[column]
        if written in _ABSENT:
            return None
        try:
            amount = float(written)
        except ValueError:
            raise InvalidFile(
                f"{where}: {column} is {written!r}, not a raw number; run Nextflow with trace.raw = true"
            ) from None
        if not (math.isfinite(amount) and amount >= 0.0):
            raise InvalidFile(f"{where}: {column} is {written!r}; it must be a finite number ≥ 0")
        return amount

    runtime_ms, submit_ms, complete_ms = number("realtime"), number("submit"), number("complete")
    if runtime_ms is None or submit_ms is None or complete_ms is None:
        return None
    start_ms = number("start")
    cores, percent = number("cpus"), number("%cpu")
    return TraceRow(
        task_id=fields["task_id"],
        process=fields["process"],
        tag="" if fields.get("tag", "-") == "-" else fields["tag"],
        name=fields["name"],
        node="" if fields.get("hostname", "-") == "-" else fields["hostname"],
        is_completed=fields["status"] == "COMPLETED",
        cores=1.0 if cores is None else cores,
        memory_bytes=number("memory"),
        submit_s=submit_ms / 1000,
        start_s=(complete_ms - runtime_ms if start_ms is None else start_ms) / 1000,
        complete_s=complete_ms / 1000,
        runtime_s=runtime_ms / 1000,
        mean_cores=None if percent is None else percent / 100,
        peak_memory_bytes=number("peak_rss"),
        read_bytes=number("read_bytes"),
        written_bytes=number("write_bytes"),
    )
