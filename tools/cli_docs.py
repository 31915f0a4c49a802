"""Bring the help texts in docs/CLI.md up to date: `python tools/cli_docs.py`. A test holds that they are.

Between `<!-- help: COMMAND -->` and the end of the code block after it stands what `stowplan COMMAND --help`
prints at a width of 100.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "CLI.md"
BLOCK = re.compile(r"<!-- help: ?(?P<command>[a-z ]*?) -->\n```text\n.*?```\n", re.DOTALL)


@cache
def help_of(command: str) -> str:
    """What `stowplan COMMAND --help` prints; without a command, `stowplan --help`."""
    script = "import sys; from stowplan.cli import main; sys.argv[0] = 'stowplan'; main()"
    arguments = [sys.executable, "-c", script, *command.split(), "--help"]
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout


def updated(page: str) -> str:
    """The page with every help text as it is now."""
    return BLOCK.sub(
        lambda block: f"<!-- help: {block['command']} -->\n```text\n{help_of(block['command'])}```\n", page
    )


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
