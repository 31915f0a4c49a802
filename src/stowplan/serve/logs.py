"""Structured logs: one event per line, as JSON for machines or as text for people.

Event names are short and constant, what varies are keywords, so that logs can be searched and counted. What
libraries log through the standard library comes out in the same form.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TextIO

import structlog
from structlog.typing import Processor

# Values of local variables stay out of the logs: some are credentials.
_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

__all__ = ["LogFormat", "LogLevel", "configure_logs"]


class LogFormat(StrEnum):
    """How lines look."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The least that is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logs(
    log_format: LogFormat = LogFormat.JSON,
    level: LogLevel = LogLevel.INFO,
    stream: TextIO | None = None,
    **context: str,
) -> None:
    """Send all logs of this process to `stream` (standard error), with `context` on every line."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer(sort_keys=False)]
        if log_format is LogFormat.JSON
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    # A line per request of the health probes helps nobody.
    logging.getLogger("aiohttp.access").setLevel(max(number, logging.WARNING))
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)
