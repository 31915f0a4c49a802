"""Lines of progress, on stderr: what goes to stdout may be read by a shell."""

import sys
from collections.abc import Callable

Report = Callable[[str], None]


def tell(line: str) -> None:
    """Write a line of progress to stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
