"""The process around a command: what an error, an interrupt or a closed pipe becomes for whoever started it.

A defect of ours, and nothing else, shows a traceback.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from stowplan.cli.app import app
from stowplan.cli.exit_codes import BAD_INPUT, CLOSED_PIPE, INTERRUPTED
from stowplan.errors import StowplanError

__all__ = ["main", "run"]

_BEYOND_SERVING: Final = frozenset({"numba", "llvmlite", "polars", "plotly"})
_FOR_LEARNING: Final = frozenset({"gymnasium", "onnx", "onnxscript", "tensorboard", "torch"})


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    try:
        code: object = app(list(arguments) or ["--help"], prog_name="stowplan", standalone_mode=False)
        sys.stdout.flush()
    except (StowplanError, typer.TyperException) as error:
        return _complain(error)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _FOR_LEARNING:
            return _complain(f"this command needs {missing}; install stowplan with the extra `learn`")
        if missing not in _BEYOND_SERVING:
            raise
        return _complain(
            f"this command needs {error.name}, which the serving installation leaves out; "
            "install requirements/base.lock in place of requirements/serve.lock"
        )
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # Whatever is still buffered has nobody to read it; Python would complain when it flushes on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if code == INTERRUPTED:  # Typer returns it for Ctrl-C, `simulate` when it kept what was reached
        sys.stderr.write("interrupted\n")
    return code if isinstance(code, int) else 0


def _complain(error: Exception | str) -> int:
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    line = " ".join(message.split())
    hint = ""
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path if context is not None else 'stowplan'} --help)"
    sys.stderr.write(f"error: {line}{hint}\n")
    return BAD_INPUT
