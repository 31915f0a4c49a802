"""docs/ENCODER.md says what the schema says, and its example runs."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import pytest

from stowplan.core.encoder import SCHEMA, FeatureGroup


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "ENCODER.md").read_text(encoding="utf-8")


@pytest.fixture
def tool(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "tools"))  # as when it is run
    spec = importlib.util.spec_from_file_location("encoder_docs", repository / "tools" / "encoder_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_current(page: str, tool: ModuleType) -> None:
    assert {block["name"] for block in tool.BLOCK.finditer(page)} == set(tool.TABLES)
    assert tool.updated(page) == page, "run python tools/encoder_docs.py"


def test_everything_is_named(page: str) -> None:
    for table in SCHEMA.tables:
        for column in table.columns:
            assert f"| `{column.name}` | {column.unit} | {column.meaning} |" in page
    for group in FeatureGroup:
        assert f"| `{group}` |" in page


def test_the_example_prints_what_it_says(page: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    said = re.search(r"# (.*)\n$", example)
    assert said is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "docs/ENCODER.md", "exec"), {})  # noqa: S102 (our own page)
    assert printed.getvalue().strip() == said[1]
