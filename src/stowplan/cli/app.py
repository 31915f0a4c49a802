"""The commands of `stowplan` and their options."""

from __future__ import annotations

import typer

app = typer.Typer()
