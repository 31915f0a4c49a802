"""docs/SEMANTICS.md says what the catalogue says, and its example runs."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import pytest

from stowplan.core.semantics import CATALOGUE, PLATFORMS, Quality


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "SEMANTICS.md").read_text(encoding="utf-8")


@pytest.fixture
def tool(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "semantics_docs", repository / "tools" / "semantics_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_current(page: str, tool: ModuleType) -> None:
    assert {block["name"] for block in tool.BLOCK.finditer(page)} == set(tool.TABLES)
    assert tool.updated(page) == page, "run python tools/semantics_docs.py"


def test_everything_is_named(page: str) -> None:
    for name in (*CATALOGUE, *PLATFORMS, *Quality):
        assert f"`{name}`" in page


def test_the_example_prints_what_it_says(page: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    said = re.search(r"# (.*)\n$", example)
    assert said is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "docs/SEMANTICS.md", "exec"), {})  # noqa: S102 (our own page)
    assert printed.getvalue().strip() == said[1]
