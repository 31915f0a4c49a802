"""What a command returns to the shell that started it."""

from __future__ import annotations

from typing import Final

__all__ = ["BAD_INPUT", "CLOSED_PIPE", "INTERRUPTED"]

CLOSED_PIPE: Final = 1
"""Standard output was closed before all was said."""

BAD_INPUT: Final = 2
"""The input or the command line cannot be used; one line on standard error says what and how to mend it."""

INTERRUPTED: Final = 130
"""Ctrl-C ended the command, as shells have it; what was finished is kept."""
