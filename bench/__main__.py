"""`python -m bench [NAME…] [--quick] [--docs]`: measure, check the limits, keep the results, write the page.

A NAME selects the modules whose file name starts with it; without one, all run. `--quick` measures little,
keeps nothing and checks no limit: it shows that the modules work. `--docs` only writes the page from what was
kept.
Exit code 1: a module failed, or a limit does not hold.
"""

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, cast

from bench.harness import Row
from bench.limits import check, read_limits
from bench.report import DOCS_FILE, Result, number, read_results, render, this_machine, write_result
from testbed.errors import MissingPrerequisite


class Module(Protocol):
    """What `bench/<area>_<question>.py` has to offer."""

    __doc__: str | None
    run: Callable[..., list[Row]]


def module_names(folder: Path = Path(__file__).parent) -> list[str]:
    """Return the names of the benchmark modules: files with an underscore inside their names."""
    return sorted(path.stem for path in folder.glob("[a-z]*_*.py"))


def select(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the modules that start with one of `names`, all when there are none.

    Raises:
        SystemExit: a name selects nothing.
    """
    for name in names:
        if not any(module.startswith(name) for module in known):
            raise SystemExit(f"no benchmark starts with {name!r}; there are: {', '.join(known)}")
    return [module for module in known if not names or module.startswith(tuple(names))]


def show(rows: Sequence[Row]) -> None:
    """Print rows as they come, one line each."""
    for row in rows:
        interval = f"[{number(row.ci95_low)}, {number(row.ci95_high)}]"
        line = f"  {row.name:<40} {number(row.median)} {row.unit} {interval}"
        if row.ratio is not None:
            line += f"   {number(row.ratio)} x {row.peer}"
        print(line, flush=True)


def run_module(name: str, *, quick: bool) -> list[Row] | None:
    """Run one module, print its rows, keep them unless `quick`; None when it failed.

    What the machine lacks is told on one line, any other failure with its traceback.
    """
    print(f"{name}:", flush=True)
    try:
        module = cast("Module", importlib.import_module(f"bench.{name}"))
        rows = module.run(quick=quick)
    except MissingPrerequisite as missing:
        print(f"  not measured: {missing}", file=sys.stderr)
        return None
    except Exception:  # noqa: BLE001 - the other modules still run; the exit code tells that this one failed
        traceback.print_exc()
        return None
    show(rows)
    if not quick:
        title = (module.__doc__ or name).strip().splitlines()[0].rstrip(".")
        command = f"python -m bench {name}"
        date = datetime.now(tz=UTC).date().isoformat()
        write_result(
            Result(module=name, title=title, date=date, command=command, machine=this_machine(), rows=rows)
        )
    return rows


def failed_limits(rows: Sequence[Row]) -> int:
    """Print the verdict on each limit that `rows` bear on and return how many do not hold."""
    measured = {row.name for row in rows}
    failures = 0
    for verdict in check(rows, read_limits()):
        if verdict.name in measured:
            failures += not verdict.holds
            limit = verdict.limit
            print(f"{verdict.word:<6} {verdict.name}: {verdict.measured} {limit.op} {limit.value}")
    return failures


def write_docs() -> None:
    """Write the page from what is kept."""
    DOCS_FILE.parent.mkdir(exist_ok=True)
    DOCS_FILE.write_text(render(read_results(), read_limits()), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="run the modules that start with NAME (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="measure little, keep nothing, check no limit")
    parser.add_argument(
        "--docs", action="store_true", help="only write docs/BENCHMARKS.md from the kept results"
    )
    options = parser.parse_args(arguments)
    if options.docs:
        write_docs()
        return 0
    results = [run_module(name, quick=options.quick) for name in select(options.names, module_names())]
    failures = sum(rows is None for rows in results)
    if not options.quick:
        failures += failed_limits([row for rows in results if rows is not None for row in rows])
        write_docs()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
