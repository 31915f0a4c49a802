"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["ConfigFile", "HistoryUrl", "Output", "OutputFormat", "Server"]


class OutputFormat(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="How the answer is written.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="STOWPLAN_CONFIG",
        help="The configuration of the services, YAML.",
    ),
]
Server = Annotated[
    str,
    typer.Option(
        "--server", metavar="URL", envvar="STOWPLAN_SERVER", help="The HTTP address of the running scheduler."
    ),
]
HistoryUrl = Annotated[
    str,
    typer.Option(
        "--history",
        metavar="URL",
        envvar="STOWPLAN_HISTORY__URL",
        help="The history that the scheduler keeps (history.url).",
    ),
]
