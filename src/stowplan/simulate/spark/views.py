"""How compiled code reaches the tables of a cluster: views of `State` behind one handle."""

from __future__ import annotations

import numpy as np
from numba import carray
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.core.physics.handles import Handle, pointer
from stowplan.simulate.spark.profiles import STAGE_PROFILE_DTYPE
from stowplan.simulate.spark.state import (
    COMMITMENT_DTYPE,
    COUNTER_DTYPE,
    EXECUTOR_DTYPE,
    JOB_DTYPE,
    POOL_DTYPE,
    RUN_DTYPE,
    STAGE_DTYPE,
)

__all__ = [
    "Handle",
    "active_of",
    "brackets_of",
    "commitments_of",
    "counters_of",
    "due_of",
    "executors_of",
    "jobs_of",
    "neighbours_of",
    "pools_of",
    "profiles_of",
    "runs_of",
    "samples_of",
    "stages_of",
]

_FLOAT = np.dtype("f8")
_WHOLE = np.dtype("i8")


@inner
def profiles_of(handle: Handle) -> NDArray[np.void]:
    """View `State.profiles`."""
    return carray(pointer(handle[0]), (handle[1],), STAGE_PROFILE_DTYPE)


@inner
def neighbours_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.neighbours`."""
    return carray(pointer(handle[3]), (handle[4],), _WHOLE)


@inner
def samples_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.samples_ms`."""
    return carray(pointer(handle[6]), (handle[7],), _FLOAT)


@inner
def brackets_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.brackets`."""
    return carray(pointer(handle[9]), (handle[10], 2), _WHOLE)


@inner
def jobs_of(handle: Handle) -> NDArray[np.void]:
    """View `State.jobs`."""
    return carray(pointer(handle[12]), (handle[13],), JOB_DTYPE)


@inner
def stages_of(handle: Handle) -> NDArray[np.void]:
    """View `State.stages`."""
    return carray(pointer(handle[15]), (handle[16],), STAGE_DTYPE)


@inner
def executors_of(handle: Handle) -> NDArray[np.void]:
    """View `State.executors`."""
    return carray(pointer(handle[18]), (handle[19],), EXECUTOR_DTYPE)


@inner
def due_of(handle: Handle) -> NDArray[np.float64]:
    """View `State.due_ms`."""
    return carray(pointer(handle[21]), (handle[22],), _FLOAT)


@inner
def pools_of(handle: Handle) -> NDArray[np.void]:
    """View `State.pools`."""
    return carray(pointer(handle[24]), (handle[25],), POOL_DTYPE)


@inner
def commitments_of(handle: Handle) -> NDArray[np.void]:
    """View `State.commitments`."""
    return carray(pointer(handle[27]), (handle[28],), COMMITMENT_DTYPE)


@inner
def active_of(handle: Handle) -> NDArray[np.int64]:
    """View `State.active`."""
    return carray(pointer(handle[30]), (handle[31],), _WHOLE)


@inner
def runs_of(handle: Handle) -> NDArray[np.void]:
    """View `State.runs`."""
    return carray(pointer(handle[33]), (handle[34],), RUN_DTYPE)


@inner
def counters_of(handle: Handle) -> NDArray[np.void]:
    """View `State.counters`."""
    return carray(pointer(handle[36]), (handle[37],), COUNTER_DTYPE)
