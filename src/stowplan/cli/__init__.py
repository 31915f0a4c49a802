"""The command line. Commands read options, call one function of a layer below and show what it returns.

Nothing heavy is imported before a command needs it: `stowplan --help` must be quick, and where only the
serving layers are installed (no numba, no polars, no plotly) the commands that need no more than NumPy work
all the same.
"""

from stowplan.cli.process import main

__all__ = ["main"]
