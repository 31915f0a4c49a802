"""Logs: a line per event that a machine can read, whoever logs, without what must stay secret."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from stowplan.serve.logs import LogFormat, LogLevel, configure_logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_ours_and_those_of_libraries_have_one_form() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream, mode="binder")
    structlog.get_logger("stowplan.serve").info("pod bound", pod="a/b", node="n1")
    logging.getLogger("aiohttp.server").warning("slow by %d s", 3)
    ours, theirs = lines(stream)
    assert (ours["event"], ours["pod"], ours["mode"], ours["level"]) == ("pod bound", "a/b", "binder", "info")
    assert (theirs["event"], theirs["mode"], theirs["level"]) == ("slow by 3 s", "binder", "warning")
    assert str(ours["timestamp"]).endswith("Z")


def test_the_level_holds_for_both() -> None:
    stream = io.StringIO()
    configure_logs(level=LogLevel.WARNING, stream=stream)
    structlog.get_logger("a").info("not said")
    logging.getLogger("b").info("not said")
    structlog.get_logger("a").error("said")
    assert [line["event"] for line in lines(stream)] == ["said"]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_traceback_does_not_tell_what_variables_held(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure_logs(log_format, stream=stream)

    def fails() -> None:
        token = "s3cret" + "-value"
        raise ValueError(f"a token of {len(token)} characters")

    try:
        fails()
    except ValueError:
        structlog.get_logger("a").exception("request failed")
    text = stream.getvalue()
    assert "ValueError" in text
    assert "s3cret-value" not in text
