"""The settings of a training run: one YAML file, checked as a whole, kept with every checkpoint.

All numbers here are proposals; those of the committed configurations are the ones that were run.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import cast

import msgspec

from stowplan.core.policy.learned.sizes import NetworkShape, NetworkSizes
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.learn.episodes import Reward
from stowplan.learn.export import sizes_of_schema
from stowplan.learn.rules import FASTEST_RULE, FIRST_RULE, make_rule
from stowplan.learn.scenarios import Ranges
from stowplan.simulate.fields import convert
from stowplan.simulate.files import parse_yaml, read_text

__all__ = [
    "Checks",
    "Imitation",
    "Learning",
    "Measuring",
    "Outcomes",
    "Ppo",
    "Settings",
    "load_settings",
    "settings_from_bytes",
    "settings_to_bytes",
]


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A mapping of the file; numbers of it are positive unless said otherwise."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing.

        Raises:
            InvalidInput: a number is negative, or not finite, or a rule does not exist.
        """
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"training: {name} is {value}; give a finite number of 0 or more")
            if name in ("rules", "teachers") and isinstance(value, tuple):
                for rule in cast("tuple[str, ...]", value):
                    make_rule(rule)


class Measuring(_Part, frozen=True):
    """Before anything is learned: scenarios whose features make the statistics that are then frozen."""

    scenarios: int = 24
    kept_decisions: int = 150
    rules: tuple[str, ...] = (FASTEST_RULE, "kube-scheduler")


class Learning(_Part, frozen=True):
    """What every stage has. `scenarios` and `kept_decisions` are of one iteration and of one run."""

    iterations: int
    scenarios: int
    kept_decisions: int = 300
    passes: int = 2
    batch_cycles: int = 24
    learning_rate: float = 1e-3
    outcome_weight: float = 1.0
    blocking_weight: float = 0.1
    value_weight: float = 0.1


class Outcomes(Learning, frozen=True):
    """Stage 1: slowdowns and blocked tasks under several rules, one of them for each scenario in turn."""

    iterations: int = 40
    scenarios: int = 16
    rules: tuple[str, ...] = (FASTEST_RULE, FIRST_RULE, "kube-scheduler", "random")


class Imitation(Learning, frozen=True):
    """Stage 2: the decisions of whichever teacher did best in each scenario."""

    iterations: int = 20
    scenarios: int = 8
    teachers: tuple[str, ...] = (FIRST_RULE, "srpt-measured", "srpt")
    order_weight: float = 0.2
    choice_weight: float = 1.0
    order_temperature: float = 0.3
    choice_temperature: float = 1.0


class Ppo(Learning, frozen=True):
    """Stage 3: PPO over groups of runs of one scenario, `rollouts` each.

    `baseline` is what a run is compared with, see `ppo`: both, group or value.
    """

    iterations: int = 100
    scenarios: int = 4
    rollouts: int = 4
    learning_rate: float = 3e-4
    clip: float = 0.2
    target_kl: float = 0.02
    order_weight: float = 1.0
    entropy_weight: float = 0.002
    decay: float = 1.0
    baseline: str = "both"
    order_temperature: float = 0.1
    choice_temperature: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a baseline that does not exist, and groups of one.

        Raises:
            InvalidInput: as in the base, or one of these.
        """
        super().__post_init__()
        if self.baseline not in ("both", "group", "value"):
            raise InvalidInput(f"training: ppo.baseline is {self.baseline!r}; write both, group or value")
        if self.baseline != "value" and self.rollouts < 2:
            raise InvalidInput(
                f"training: ppo.rollouts is {self.rollouts}; a group needs 2, to be each other's baseline"
            )


class Checks(_Part, frozen=True):
    """Validation: the network as it would serve, against rules, on scenarios of its own; 0: none."""

    scenarios: int = 12
    every: int = 10
    rules: tuple[str, ...] = ("kube-scheduler", FIRST_RULE, "srpt-measured")


class Settings(_Part, frozen=True):
    """A training run.

    Attributes:
        seed: everything that chance decides follows from it.
        recordings: folder of WfInstances; null: the few recordings that come with Stowplan.
        processes: rollouts at a time on this machine, 1: in the training process itself.
        threads: of PyTorch in the training process.
        ray: address of a Ray cluster for rollouts ("local": one on this machine); null: none.
        warm_up: iterations over which scenarios get from easy to as hard as the ranges say, over all stages.
        most_groups: groups of equal tasks that are encoded in a cycle; serving encodes more.
        gradient_norm: most length of a gradient.
        checkpoint_every: iterations between checkpoints.
    """

    seed: int = 1
    recordings: str | None = None
    processes: int = 1
    threads: int = 2
    ray: str | None = None
    warm_up: int = 20
    most_groups: int = 128
    gradient_norm: float = 1.0
    checkpoint_every: int = 5
    network: NetworkShape = msgspec.field(default_factory=NetworkShape)
    ranges: Ranges = msgspec.field(default_factory=Ranges)
    reward: Reward = msgspec.field(default_factory=Reward)
    measuring: Measuring = msgspec.field(default_factory=Measuring)
    outcomes: Outcomes = msgspec.field(default_factory=Outcomes)
    imitation: Imitation = msgspec.field(default_factory=Imitation)
    ppo: Ppo = msgspec.field(default_factory=Ppo)
    checks: Checks = msgspec.field(default_factory=Checks)

    @property
    def sizes(self) -> NetworkSizes:
        """Sizes of the network with this version's columns."""
        return sizes_of_schema(self.network)

    @property
    def digest(self) -> str:
        """Equal for runs that learn the same: where and by how many processes is left out."""
        same = msgspec.structs.replace(self, recordings=None, processes=1, ray=None)
        return hashlib.sha256(settings_to_bytes(same)).hexdigest()


def load_settings(path: Path) -> Settings:
    """Read a file of settings; a relative `recordings` is relative to it.

    Raises:
        InvalidFile: unreadable, not YAML, an unknown key or a wrong type; the message names it.
        InvalidInput: a value that means nothing.
    """
    documents = parse_yaml(read_text(path), str(path))
    if len(documents) > 1:
        raise InvalidFile(f"{path}: holds {len(documents)} documents; put one training in a file")
    try:
        settings = convert(documents[0], Settings, str(path), guide="docs/TRAINING.md")
    except InvalidInput as error:
        if str(error).startswith(str(path)):
            raise
        raise InvalidInput(f"{path}: {error}") from None
    if settings.recordings is None:
        return settings
    return msgspec.structs.replace(settings, recordings=str(path.parent / settings.recordings))


def settings_to_bytes(settings: Settings) -> bytes:
    """Return the settings as JSON."""
    return msgspec.json.encode(settings)


def settings_from_bytes(content: bytes) -> Settings:
    """Return settings that were kept with a checkpoint.

    Raises:
        InvalidFile: they are not of this version.
    """
    try:
        return msgspec.json.decode(content, type=Settings)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidFile(
            f"the settings kept with a checkpoint cannot be read: {error}; train anew"
        ) from None
