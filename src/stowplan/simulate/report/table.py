"""A table as a value, so that the terminal and the page show the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Cell", "Column", "Table"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether it holds words (left) or numbers (right)."""

    heading: str
    holds_words: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell; `verdict` ("good", "bad" or "") never carries the meaning alone."""

    text: str
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first column names its row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def to_html(self) -> str:
        """Return the table as accessible markup inside a region that scrolls sideways on its own."""
        head = "".join(f'<th scope="col">{escape(column.heading)}</th>' for column in self.columns)
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">'
            f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, row: Sequence[Cell]) -> str:
        cells: list[str] = []
        for index, (cell, column) in enumerate(zip(row, self.columns, strict=True)):
            text = escape(cell.text)
            if index == 0:
                cells.append(f'<th scope="row">{text}</th>')
                continue
            classes = " ".join(name for name in ("words" if column.holds_words else "", cell.verdict) if name)
            cells.append(f'<td class="{classes}">{text}</td>' if classes else f"<td>{text}</td>")
        return "".join(cells)
