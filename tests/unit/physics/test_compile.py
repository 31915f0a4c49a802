"""The on-disk cache of compiled functions must notice a change in a function that is called."""

import subprocess
import sys
from pathlib import Path

MODULE = """
from stowplan.core.physics.compile import compiled
from lab.callee import number

@compiled
def twice(x: float) -> float:
    return 2.0 * number(x)
"""
CALLEE = """
from stowplan.core.physics.compile import compiled

@compiled
def number(x: float) -> float:
    return x + {step}
"""


def test_a_cached_caller_follows_a_changed_callee(tmp_path: Path) -> None:
    package = tmp_path / "lab"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(MODULE)
    answers: list[str] = []
    for step in ("1.0", "10.0"):
        (package / "callee.py").write_text(CALLEE.format(step=step))
        program = "from lab.caller import twice; print(twice(1.0))"
        run = subprocess.run(
            [sys.executable, "-B", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        answers.append(run.stdout.strip())
    assert answers == ["4.0", "22.0"]
