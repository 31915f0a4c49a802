"""What tests of training have in common; without PyTorch none of them can run, and they say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.learned_cases import NO_TORCH

if TYPE_CHECKING:
    from stowplan.learn.rollouts import Setup, Worker
    from stowplan.learn.settings import Settings


def pytest_pycollect_makemodule() -> None:
    """Leave out the tests of this folder, which all import PyTorch, where it is not installed."""
    pytest.importorskip("torch", reason=NO_TORCH)


@pytest.fixture
def settings() -> Settings:
    from tests.learning_cases import tiny_settings  # noqa: PLC0415  (needs torch)

    return tiny_settings()


@pytest.fixture
def setup(settings: Settings) -> Setup:
    from stowplan.learn.training import setup_of  # noqa: PLC0415  (needs torch)

    return setup_of(settings)


@pytest.fixture
def worker(setup: Setup) -> Worker:
    from stowplan.learn.rollouts import Worker  # noqa: PLC0415  (needs torch)

    return Worker(setup)
