"""What Argo's controller is configured with, read from its ConfigMap and followed.

It matters what the controller demands: under strict template referencing it puts every workflow to Error that
sets more than it allows, and a webhook that does not know would do just that to all of them.

Source: Argo Workflows 4.0, `config/config.go` and docs/workflow-controller-configmap.md: a field of the
configuration is a key of the map with YAML in it, or all of them are in the key `config`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec
import yaml
from pydantic import ValidationError

from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Health, Identity, ReflectorState
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import Resource
from stowplan.kube.argo.objects import as_mapping
from stowplan.serve.webhook.settings import ControllerConfig

__all__ = ["FollowedController", "read_controller_map"]

_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
_WHOLE: Final = "config"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


def read_controller_map(data: Mapping[str, str], given: ControllerConfig) -> ControllerConfig:
    """Return what the controller is configured with; what is set in `given` goes before the map.

    Raises:
        InvalidInput: a field of the map cannot be read.
    """
    fields: dict[str, Any] = {}
    for key, text in data.items():
        try:
            value: object = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InvalidInput(f"{key} is no YAML: {' '.join(str(error).split())}") from None
        if key == _WHOLE:
            fields |= as_mapping(value)
        else:
            fields[key] = value
    restrictions = as_mapping(fields.get("workflowRestrictions"))
    found = {
        "template_referencing": str(restrictions.get("templateReferencing") or "none").lower(),
        "workflow_defaults": as_mapping(as_mapping(fields.get("workflowDefaults")).get("spec")),
        "main_container": as_mapping(fields.get("mainContainer")),
        "executor_resources": as_mapping(as_mapping(fields.get("executor")).get("resources")),
        "instance_id": fields.get("instanceID") or "",
    }
    said = given.model_dump(exclude_none=True)
    try:
        return ControllerConfig.model_validate({**found, **said})
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InvalidInput(f"{where} is {fault['input']!r}: {fault['msg']}") from None


class FollowedController:
    """Follows the ConfigMap and tells what it says. Without a ConfigMap, what is given holds."""

    def __init__(
        self, client: ApiClient, given: ControllerConfig, on_change: Callable[[ControllerConfig], None]
    ) -> None:
        """Follow `given.config_map` once `run` runs; `on_change` is told now and with every change.

        Raises:
            InvalidInput: its name is not of the form NAMESPACE/NAME.
        """
        self._where = given.config_map
        self._given = given
        self._on_change = on_change
        self._fault = ""
        self._is_there = False
        self._reflector: Reflector[_ConfigMap] | None = None
        if self._where:
            namespace, slash, name = self._where.partition("/")
            if not (namespace and slash and name):
                raise InvalidInput(
                    f"webhook.controller.config_map {self._where!r}: write NAMESPACE/NAME, or '' for none"
                )
            self._reflector = Reflector(
                client,
                _CONFIG_MAPS,
                cast("Callable[[bytes | msgspec.Raw], _ConfigMap]", msgspec.json.Decoder(_ConfigMap).decode),
                self,
                namespace=namespace,
                query={"fieldSelector": f"metadata.name={name}"},
            )
        on_change(given)

    @property
    def is_settled(self) -> bool:
        """Whether the map was read, or is known not to be there, or none is wanted."""
        return self._reflector is None or self._reflector.health.is_settled

    @property
    def error(self) -> str:
        """Why less is known of the controller than should be; empty while all is well."""
        if self._reflector is None:
            return ""
        health: Health = self._reflector.health
        if health.state is ReflectorState.WAITING or not health.is_settled:
            return health.error
        if not self._is_there:
            return (
                f"there is no ConfigMap {self._where}: Argo is taken to restrict nothing; "
                "correct webhook.controller.config_map, or set it to ''"
            )
        return self._fault

    async def run(self) -> None:
        """Follow until cancelled."""
        if self._reflector is not None:
            await self._reflector.run()

    # ---- the reflector's ----

    def set(self, identity: Identity, item: _ConfigMap) -> None:
        """Take over what the map says now; what cannot be read leaves all as it was."""
        del identity
        self._is_there = True
        try:
            config = read_controller_map(item.data, self._given)
        except InvalidInput as error:
            self._fault = f"ConfigMap {self._where}: {error}"
            return
        self._fault = ""
        self._on_change(config)

    def delete(self, identity: Identity) -> None:
        """The map is gone: what is given holds."""
        del identity
        self._is_there = False
        self._fault = ""
        self._on_change(self._given)

    def synced(self) -> None:
        """Everything was told."""
