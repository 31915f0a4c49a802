"""The configuration of the services: one file, overridden by the environment, overridden by the command line.

    stowplan config check --config config.yaml

`STOWPLAN_SCHEDULER__MODE=gate` sets `scheduler.mode`. Times have their unit in the name. What is not known is
refused with its path, so that a misspelt key does not pass for a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import (
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
from stowplan.serve.sections import (
    ExtenderConfig,
    HistoryConfig,
    HttpConfig,
    KubernetesConfig,
    LeaseConfig,
    LogConfig,
    PreemptionConfig,
    SchedulerConfig,
)
from stowplan.serve.webhook.settings import WebhookConfig

__all__ = ["Config", "load_config"]


class Config(BaseSettings):
    """The whole configuration; every field has a default."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix="STOWPLAN_", env_nested_delimiter="__"
    )

    kubernetes: KubernetesConfig = KubernetesConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    preemption: PreemptionConfig = PreemptionConfig()
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
