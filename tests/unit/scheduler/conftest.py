"""Logs of these tests are kept, not drawn: tracebacks in a box take longer than the tests."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged, entry by entry."""
    with structlog.testing.capture_logs() as entries:
        yield entries
