"""How things look in a terminal, and that they are whole and plain where there is none.

In a terminal tables fold long words into the width; into a pipe or a file they are as wide as they need to
be, without colour, so that nothing is cut off. `NO_COLOR` is honoured. Progress goes to standard error, and
only to a terminal.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from stowplan.simulate.report.table import Table

__all__ = ["progress_bar", "say", "show_table", "write"]

_UNBOUNDED: Final = 100_000
_STYLES: Final = {"good": "green", "bad": "red"}


def _console(*, is_error: bool) -> Console:
    """Return the console of a stream, made anew: tests and pipes replace the stream."""
    stream = sys.stderr if is_error else sys.stdout
    return Console(
        stderr=is_error,
        width=None if stream.isatty() else _UNBOUNDED,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def say(words: str) -> None:
    """Write a remark to standard error; results go to standard output."""
    _console(is_error=True).print(words)


def write(text: str) -> None:
    """Write text to standard output as it is."""
    sys.stdout.write(f"{text}\n")


def show_table(table: Table, *, ruled: bool = True) -> None:
    """Write a table to standard output, with a rule below its headings unless cells may be very long."""
    console = _console(is_error=False)
    shown = RichTable(box=box.SIMPLE_HEAD if ruled else None, pad_edge=False, show_edge=False)
    for index, column in enumerate(table.columns):
        is_left = index == 0 or column.holds_words
        shown.add_column(column.heading, justify="left" if is_left else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(cell.text, style=_STYLES.get(cell.verdict, "")) for cell in row))
    with console.capture() as capture:
        if table.title:
            console.print(Text(table.title, style="bold"))
        console.print(shown, soft_wrap=False)
        if table.caption:
            console.print(Text(table.caption, style="dim"))
    write("\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n")


def progress_bar() -> Progress:
    """Return a progress display on standard error; into a pipe or file it shows nothing."""
    console = _console(is_error=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
