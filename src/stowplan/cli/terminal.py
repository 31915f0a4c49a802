"""How things look in a terminal, and that they are whole and plain where there is none.

In a terminal tables fold long words into the width; into a pipe or a file they are as wide as they need to
be, without colour, so that nothing is cut off. `NO_COLOR` is honoured. Progress goes to standard error, and
only to a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, Protocol

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

__all__ = ["AnyTable", "output", "progress_bar", "say", "show_table"]

_UNBOUNDED: Final = 100_000
_STYLES: Final = {"good": "green", "bad": "red"}


class AnyCell(Protocol):
    """A cell: its text and a verdict ("good", "bad" or nothing)."""

    @property
    def text(self) -> str:
        """What stands there."""
        ...

    @property
    def verdict(self) -> str:
        """How it is coloured."""
        ...


class AnyColumn(Protocol):
    """A column: its heading and whether words or numbers stand in it."""

    @property
    def heading(self) -> str:
        """The heading."""
        ...

    @property
    def holds_words(self) -> bool:
        """Whether it is set to the left."""
        ...


class AnyTable(Protocol):
    """What can be shown as a table; the first column names the row."""

    @property
    def title(self) -> str:
        """Line above the table."""
        ...

    @property
    def caption(self) -> str:
        """Line below the table."""
        ...

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """The columns."""
        ...

    @property
    def rows(self) -> Sequence[Sequence[AnyCell]]:
        """The rows, one cell per column."""
        ...


def output() -> Console:
    """Return the console of standard output, made anew: tests and pipes replace the stream."""
    return _console(is_error=False)


def _console(*, is_error: bool) -> Console:
    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() else _UNBOUNDED
    return Console(stderr=is_error, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(words: str) -> None:
    """Write a remark to standard error; results go to standard output."""
    _console(is_error=True).print(words)


def show_table(table: AnyTable) -> None:
    """Write a table to standard output."""
    console = output()
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(table.columns):
        is_left = index == 0 or column.holds_words
        shown.add_column(column.heading, justify="left" if is_left else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(cell.text, style=_STYLES.get(cell.verdict, "")) for cell in row))
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(shown, soft_wrap=False)
    if table.caption:
        console.print(table.caption)


def progress_bar() -> Progress:
    """Return a progress display on standard error; into a pipe or file it shows nothing."""
    console = _console(is_error=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
