"""What import-linter cannot see: calls in core that touch the outside, and what serving needs at import."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stowplan

PACKAGE = Path(stowplan.__file__).parent

# Calls that reach the outside without an import that a linter could forbid.
OUTSIDE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "breakpoint", "__import__"})

# numpy.random's types are passed in or named; all else there draws from, or seeds, the one global generator.
ALLOWED_NUMPY_RANDOM = frozenset(
    {"Generator", "BitGenerator", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "SFC64", "default_rng"}
)
NUMPY_FILE_CALLS = frozenset(
    {
        "load",
        "save",
        "savez",
        "savez_compressed",
        "loadtxt",
        "savetxt",
        "genfromtxt",
        "fromfile",
        "memmap",
        "tofile",
    }
)

# Not installed where only decisions are served.
ABSENT_WHEN_SERVING = ("numba", "llvmlite", "polars", "plotly", "torch", "onnx", "onnxscript")
NEEDS_MORE_THAN_SERVING = (
    "stowplan.core.physics",
    "stowplan.simulate",
    "stowplan.learn",
    "stowplan.adapt",
    "stowplan.cli.demo",  # these two commands simulate
    "stowplan.cli.experiment",
    "stowplan.cli.learning",  # these two learn
)


def dotted(node: ast.expr) -> str:
    """`np.random.seed` as text; empty for what is not a plain chain of names."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            prefix = dotted(value)
            return f"{prefix}.{attr}" if prefix else ""
        case _:
            return ""


def in_import(node: ast.ImportFrom) -> Iterator[str]:
    """Yield what `from numpy… import …` brings in of the global generator."""
    for alias in node.names:
        whole_module = node.module == "numpy" and alias.name == "random"
        global_function = node.module == "numpy.random" and alias.name not in ALLOWED_NUMPY_RANDOM
        if whole_module or global_function:
            yield f"from {node.module} import {alias.name}"


def in_call(node: ast.Call) -> Iterator[str]:
    """Yield what the call does outside: files, terminal, code as text, seeds from the operating system."""
    name = dotted(node.func)
    module, _, function = name.rpartition(".")
    if name in OUTSIDE_CALLS:
        yield f"{name}()"
    if module in {"np", "numpy"} and function in NUMPY_FILE_CALLS:
        yield f"{name}() reads or writes a file"
    if function == "default_rng" and not node.args and not node.keywords:
        yield "default_rng() without a seed"


def in_attribute(node: ast.Attribute) -> Iterator[str]:
    """Yield the use of numpy's global generator."""
    module, _, member = dotted(node).rpartition(".")
    if module in {"np.random", "numpy.random"} and member not in ALLOWED_NUMPY_RANDOM:
        yield f"{module}.{member} is global randomness"


def violations(source: str) -> Iterator[str]:
    """Yield `line: what` for each call or name in `source` that core may not use."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom():
                found = in_import(node)
            case ast.Call():
                found = in_call(node)
            case ast.Attribute():
                found = in_attribute(node)
            case _:
                continue
        yield from (f"{node.lineno}: {what}" for what in found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("open('x')", "1: open()"),
        ("print(1)", "1: print()"),
        ("import numpy as np\nnp.random.seed(1)", "2: np.random.seed is global randomness"),
        ("import numpy as np\nx = np.random.rand", "2: np.random.rand is global randomness"),
        ("import numpy as np\nnp.random.default_rng()", "2: default_rng() without a seed"),
        ("from numpy.random import rand", "1: from numpy.random import rand"),
        ("from numpy import random", "1: from numpy import random"),
        ("import numpy as np\nnp.load('x')", "2: np.load() reads or writes a file"),
    ],
)
def test_the_check_finds(source: str, expected: str) -> None:
    assert list(violations(source)) == [expected]


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\ndef f(g: np.random.Generator) -> float:\n    return g.random()",
        "import numpy as np\nnp.random.default_rng(7)",
        "self.open('x')",
    ],
)
def test_the_check_allows(source: str) -> None:
    assert list(violations(source)) == []


def test_core_touches_nothing_outside() -> None:
    modules = sorted((PACKAGE / "core").rglob("*.py"))
    assert modules, "core has no modules: the check looked in the wrong place"
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in modules
        for line in violations(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def serving_modules() -> list[str]:
    """Every module of the package that must import where only decisions are served."""
    names: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE.parent).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        name = ".".join(parts)
        if parts[-1] != "__main__" and not name.startswith(NEEDS_MORE_THAN_SERVING):
            names.append(name)
    return names


def test_serving_imports_without_numba_polars_and_plotly() -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {ABSENT_WHEN_SERVING!r}:\n"
        "    sys.modules[name] = None\n"  # the import system's own way to say: not there
        f"for name in {serving_modules()!r}:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
