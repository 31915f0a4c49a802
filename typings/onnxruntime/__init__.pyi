"""Types of what the package uses of ONNX Runtime, which has none of its own for its compiled part."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

class ExecutionMode(Enum):
    ORT_SEQUENTIAL = ...

class SessionOptions:
    intra_op_num_threads: int
    inter_op_num_threads: int
    execution_mode: ExecutionMode
    use_deterministic_compute: bool
    enable_mem_pattern: bool
    log_severity_level: int

class NodeArg:
    name: str
    shape: Sequence[int | str | None]

class InferenceSession:
    def __init__(
        self, path_or_bytes: bytes, sess_options: SessionOptions, *, providers: Sequence[str]
    ) -> None: ...
    def get_inputs(self) -> Sequence[NodeArg]: ...
    def get_outputs(self) -> Sequence[NodeArg]: ...
    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, NDArray[Any]]
    ) -> list[NDArray[np.float32]]: ...
