"""`stowplan policies`."""

from __future__ import annotations

from stowplan.cli.terminal import show_table
from stowplan.core.policy import policy_names
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = ["list_policies"]


def list_policies() -> None:
    """Show the name of every policy and what it does, the baseline first."""
    columns = (Column("policy", holds_words=True), Column("what it does", holds_words=True))
    show_table(Table("", columns, [(Cell(name), Cell(words)) for name, words in policy_names().items()]))
