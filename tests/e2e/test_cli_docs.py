"""docs/CLI.md says what the command line says, and its examples run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

# On a machine where nothing is compiled yet, the first run compiles the simulator.
pytestmark = pytest.mark.timeout(400)

EXAMPLE = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    """The text of docs/CLI.md."""
    return (repository / "docs" / "CLI.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tool(repository: Path) -> ModuleType:
    """The script that keeps the page up to date."""
    spec = importlib.util.spec_from_file_location("cli_docs", repository / "tools" / "cli_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_help_texts_are_current(page: str, tool: ModuleType) -> None:
    documented = {block["command"] for block in tool.BLOCK.finditer(page)}
    assert documented == {"", *commands(tool)} - {"version"}
    assert tool.updated(page) == page, "run python tools/cli_docs.py"


def commands(tool: ModuleType, group: str = "") -> set[str]:
    """Every command by its words; of a group of commands, those in it."""
    found: set[str] = set()
    for name in re.findall(r"^  ([a-z]+)  ", tool.help_of(group).split("Commands:")[1], re.MULTILINE):
        words = f"{group} {name}".strip()
        found |= commands(tool, words) if "Commands:" in tool.help_of(words) else {words}
    return found


def test_examples_run(page: str, repository: Path, tmp_path: Path) -> None:
    examples = EXAMPLE.findall(page)
    assert len(examples) == 8
    (tmp_path / "examples").symlink_to(repository / "examples")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for example in examples:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", example],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{example}\n{done.stderr}"
        assert done.stdout
    for name, seeds in (("demo", 1), ("trial", 2), ("hard", 1)):
        summary = pl.read_parquet(tmp_path / "out" / name / "summary.parquet")
        assert summary["seed"].n_unique() == seeds
        assert (summary["workflows_done"] == summary["workflows"]).all()
        assert (tmp_path / "out" / name / "report.html").stat().st_size < 6_000_000
