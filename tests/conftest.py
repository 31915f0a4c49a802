"""What every test may use: shared data, external peers, hypothesis profiles, and a summary of the skips.

A test that needs something the machine lacks is skipped with the reason in words; the closing summary counts
the skips by reason, so that a green run cannot hide what it did not look at.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A run must not fail because the machine was busy: no deadline. CI draws the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start, also where these tests were started with `&`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: STOWPLAN_DATA, else `../shared/data` beside the repository."""
    folder = Path(os.environ.get("STOWPLAN_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not here ({folder} is no folder; STOWPLAN_DATA names another)")
    return folder


@pytest.fixture(scope="session")
def simgrid_python() -> str:
    """A Python interpreter that can import SimGrid: Debian packages it for the system's, not for a venv's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            probe = subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False)
            if probe.returncode == 0:
                return python
    pytest.skip("SimGrid is not installed (Debian: apt-get install python3-simgrid)")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's Chromium, for playwright's `executable_path`."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the external thing that they ask for, so that `-m "not simgrid"` works without more."""
    needs = {"shared_data": "shared_data", "simgrid_python": "simgrid", "chromium": "browser"}
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in needs:
                item.add_marker(needs[fixture])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped and why; works under xdist, whose workers send their reports here."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        where_and_why = report.longrepr
        why = where_and_why[2] if isinstance(where_and_why, tuple) else str(where_and_why)
        reasons[why.removeprefix("Skipped: ")] += 1
    terminalreporter.section("skips by reason")
    if not reasons:
        terminalreporter.write_line("nothing was skipped")
    for why, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4d}  {why}")
