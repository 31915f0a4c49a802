"""The configuration of the services: one file, overridden by the environment, overridden by the command line.

    stowplan config check config.yaml

`STOWPLAN_SCHEDULER__MODE=gate` sets `scheduler.mode`. Times have their unit in the name. What is not known is
refused with its path, so that a misspelt key does not pass for a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.serve.logs import LogFormat, LogLevel
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.webhook.settings import WebhookConfig

__all__ = [
    "Config",
    "ExtenderConfig",
    "HistoryConfig",
    "HttpConfig",
    "KubernetesConfig",
    "LeaseConfig",
    "LogConfig",
    "LookAheadConfig",
    "SchedulerConfig",
    "load_config",
]

Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesConfig(_Section):
    """Which cluster, and as whom.

    Without a kubeconfig: KUBECONFIG, the service account of the pod, `~/.kube/config`, in this order.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    request_timeout_s: PositiveFloat = 30.0


class LookAheadConfig(_Section):
    """Whether the best plan of a cycle is sought by foreseeing its consequences, and for how long."""

    enable: bool = True
    budget_ms: PositiveFloat = 20.0
    alternatives: tuple[str, ...] = ("kube-scheduler",)


class SchedulerConfig(_Section):
    """Which pods, in which way, by which policy.

    Attributes:
        mode: how decisions become facts.
        name: the scheduler that pods name in `spec.schedulerName` to be bound by Stowplan (binder mode).
        policy, policy_options: see `stowplan policies`.
        fallback: what decides when the policy fails; "" for none.
        rules: a file with the operator's rule table.
        node_pool: labels of the nodes that Stowplan may use; empty: all.
        placement: in gate mode, how the chosen node is written on the pod.
        bindings: at most so many placements are carried out at once.
        placements_per_cycle: at most so many are decided before other work has its turn.
        drain_s: on SIGTERM, bindings under way are waited for at most so long.
        seed: of the generator that breaks ties.
    """

    mode: Mode = Mode.EXTENDER
    name: str = "stowplan"
    policy: str = "srpt-physics"
    policy_options: dict[str, Any] = Field(default_factory=dict[str, Any])
    fallback: str = "kube-scheduler"
    look_ahead: LookAheadConfig = LookAheadConfig()
    rules: Path | None = None
    node_pool: dict[str, str] = Field(default_factory=dict[str, str])
    placement: Literal["prefer", "require", "none"] = "prefer"
    bindings: PositiveInt = 64
    placements_per_cycle: PositiveInt = 256
    drain_s: PositiveFloat = 20.0
    seed: int = 0


class ExtenderConfig(_Section):
    """Where kube-scheduler asks in extender mode, and how long an answer may take.

    Attributes:
        in_flight_s: how long a pod that was scored counts as being on its best node, unless the cluster says
            sooner where it is; 0: not at all.
    """

    host: str = "127.0.0.1"
    port: Port = 10452
    budget_ms: PositiveFloat = 50.0
    in_flight_s: NonNegativeFloat = 2.0
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None


class HttpConfig(_Section):
    """Where health, metrics, status and explanations are served."""

    host: str = "127.0.0.1"
    port: Port = 10451


class HistoryConfig(_Section):
    """Where what ran is kept; without a URL nothing is, and expected durations are all the same."""

    url: str = ""
    keep_days: PositiveFloat = 90.0
    refit_s: PositiveFloat = 60.0


class LeaseConfig(_Section):
    """The election among several instances; without it an instance leads at once and must be the only one."""

    enable: bool = True
    namespace: str = "kube-system"
    name: str = "stowplan-scheduler"
    duration_s: PositiveFloat = 15.0
    renew_s: PositiveFloat = 10.0
    retry_s: PositiveFloat = 2.0


class LogConfig(_Section):
    """What the logs say, and how."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.JSON


class Config(BaseSettings):
    """The whole configuration; every field has a default."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix="STOWPLAN_", env_nested_delimiter="__"
    )

    kubernetes: KubernetesConfig = KubernetesConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    extender: ExtenderConfig = ExtenderConfig()
    http: HttpConfig = HttpConfig()
    history: HistoryConfig = HistoryConfig()
    lease: LeaseConfig = LeaseConfig()
    log: LogConfig = LogConfig()
    webhook: WebhookConfig = WebhookConfig()


def load_config(file: Path | None = None, overrides: Mapping[str, object] | None = None) -> Config:
    """Read the configuration.

    Args:
        file: YAML; None for none.
        overrides: what the command line says, by dotted path (`scheduler.mode`); None values say nothing.

    Raises:
        InvalidFile: the file cannot be read or is no mapping.
        InvalidInput: a field is not known or has a value that it cannot have; all faults are named.
    """
    if file is not None:
        _check_readable(file)

    class _Sourced(Config):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            if file is None:
                return init_settings, env_settings
            return init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=file)

    try:
        sourced = _Sourced(**_nested(overrides or {}))
    except ValidationError as error:
        faults = "; ".join(_fault(details) for details in error.errors())
        raise InvalidInput(f"{file or 'configuration'}: {faults}") from None
    except SettingsError as error:
        raise InvalidInput(f"configuration from the environment: {error}") from None
    return Config.model_construct(**{name: getattr(sourced, name) for name in Config.model_fields})


def _check_readable(file: Path) -> None:
    try:
        document: object = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"configuration {file}: {error}; name a readable YAML file") from None
    except yaml.YAMLError as error:
        raise InvalidFile(f"configuration {file} is no YAML: {' '.join(str(error).split())}") from None
    if document is not None and not isinstance(document, dict):
        raise InvalidFile(f"configuration {file} is {type(document).__name__}; write a mapping of sections")


def _nested(overrides: Mapping[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in overrides.items():
        if value is not None:
            *sections, field = path.split(".")
            at = found
            for section in sections:
                at = at.setdefault(section, {})
            at[field] = value
    return found


def _fault(details: ErrorDetails) -> str:
    path = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return f"{path} is not known; correct or remove it"
    return f"{path} is {details['input']!r}: {details['msg']}"
