"""The scheduling cycle."""

from stowplan.core.engine.cycle import CycleReport, Engine

__all__ = ["CycleReport", "Engine"]
