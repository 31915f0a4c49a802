"""Checkpoints of a training run: whole or refused, and resumed exactly.

A file is one line that says what it is, one with the SHA-256 of the rest, and what PyTorch writes. It is read
with `weights_only`, so that a file from elsewhere can hold numbers and text and nothing that runs. It appears
by an atomic rename: a run that is killed while it writes leaves the checkpoint before.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any, Final, cast

import torch

from stowplan.core.encoder import SCHEMA, difference, schema_from_bytes, schema_to_bytes
from stowplan.core.semantics import statistics_from_bytes, statistics_to_bytes
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.learn.learner import Learner, new_learner
from stowplan.learn.settings import settings_from_bytes, settings_to_bytes
from stowplan.simulate.report.folder import ResultFolder

__all__ = ["BEST", "LAST", "load_checkpoint", "save_checkpoint"]

LAST: Final = "last.checkpoint"
"""File of the state to resume from."""
BEST: Final = "best.checkpoint"
"""File of the state that did best in validation."""
_MAGIC: Final = b"stowplan training checkpoint 1\n"
_DIGEST_CHARACTERS: Final = 64


def save_checkpoint(learner: Learner, path: Path) -> None:
    """Write the state of a run.

    Raises:
        OutputError: the file cannot be written.
    """
    statistics = learner.statistics
    content = {
        "settings": settings_to_bytes(learner.settings).decode(),
        "schema": schema_to_bytes(SCHEMA).decode(),
        "statistics": None if statistics is None else statistics_to_bytes(statistics).decode(),
        "network": learner.network.state_dict(),
        "optimiser": learner.optimiser.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "rng": json.dumps(learner.rng.bit_generator.state),
        "done": learner.done,
        "drawn": learner.drawn,
        "best": learner.best,
        "baselines": learner.baselines,
    }
    stream = io.BytesIO()
    torch.save(content, stream)
    body = stream.getvalue()
    whole = b"".join((_MAGIC, hashlib.sha256(body).hexdigest().encode(), b"\n", body))
    with ResultFolder(path.parent) as folder:
        folder.publish({path.name: lambda target: target.write_bytes(whole)})


def load_checkpoint(path: Path) -> Learner:
    """Return the state of a run as it was saved, and set PyTorch's generator for this process.

    Raises:
        InvalidFile: the file is missing, truncated, altered, of another version or of other columns; says
        which.
    """
    content = _decode(_body(path), path)
    try:
        trained = schema_from_bytes(content["schema"].encode())
        changed = difference(trained, SCHEMA)
        if changed:
            raise InvalidFile(f"{path}: was trained on other columns: {changed}; train anew")
        learner = new_learner(settings_from_bytes(content["settings"].encode()))
        if content["statistics"] is not None:
            learner.statistics = statistics_from_bytes(content["statistics"].encode())
        learner.network.load_state_dict(content["network"])
        learner.optimiser.load_state_dict(content["optimiser"])
        learner.rng.bit_generator.state = json.loads(content["rng"])
        learner.done, learner.drawn = int(content["done"]), int(content["drawn"])
        learner.best = float(content["best"])
        learner.baselines = {name: list(scores) for name, scores in content["baselines"].items()}
        torch.set_rng_state(content["torch_rng"])
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
    except (KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidFile(f"{path}: is not a checkpoint of this version ({error}); train anew") from error
    return learner


def _body(path: Path) -> bytes:
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise InvalidFile(
            f"{path}: cannot be read ({error.strerror}); name a checkpoint of a training"
        ) from None
    start = len(_MAGIC) + _DIGEST_CHARACTERS + 1
    if not whole.startswith(_MAGIC):
        raise InvalidFile(f"{path}: is no checkpoint of this version; name another")
    said, body = whole[len(_MAGIC) : start - 1].decode("ascii", "replace"), whole[start:]
    if hashlib.sha256(body).hexdigest() != said:
        raise InvalidFile(
            f"{path}: is truncated or altered (its SHA-256 is not what it says); go back to an older copy, "
            f"or delete it to begin again"
        )
    return body


def _decode(body: bytes, path: Path) -> dict[str, Any]:
    try:
        content: object = torch.load(io.BytesIO(body), weights_only=True, map_location="cpu")
    except Exception as error:  # whatever a reader of foreign bytes raises
        raise InvalidFile(f"{path}: cannot be decoded ({type(error).__name__}); train anew") from error
    if not isinstance(content, dict):
        raise InvalidFile(f"{path}: holds a {type(content).__name__}, not a state; train anew")
    return cast("dict[str, Any]", content)
