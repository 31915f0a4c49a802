"""The types of the fields of Argo objects, checked before anything reads them.

Only what is wrong is told, with its path; fields that are not named here are left alone, because newer
versions of Argo have more of them. With Argo's minimal CRDs the API server lets a wrong type through and the
controller then fails over and over on decoding the whole list, so that this check is worth having at
admission.

Source: Argo Workflows 4.0, `pkg/apis/workflow/v1alpha1` (types as the Go decoder takes them); `core/v1`
containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

from stowplan.core.domain import parse_quantity
from stowplan.errors import InvalidQuantity
from stowplan.kube.argo.problems import Problems

__all__ = ["CRON_WORKFLOW_SPEC", "WORKFLOW_SPEC", "check_fields"]


class _Plain(Enum):
    TEXT = "write text; quote what YAML reads as something else"
    FLAG = "write true or false, without quotes"
    WHOLE = "write a whole number"
    COUNT = "write a whole number, or text with one or with a variable"
    VALUE = "write text, a number or a boolean; JSON goes in as text"
    QUANTITY = "write a quantity such as '500m' or '2Gi'"
    MAPPING = "write a mapping"
    PRESENT = "write anything but nothing"


@dataclass(frozen=True, slots=True)
class _ListOf:
    inner: _Type


@dataclass(frozen=True, slots=True)
class _MapOf:
    inner: _Type


@dataclass(frozen=True, slots=True)
class _Struct:
    fields: dict[str, _Type]


_Type = _Plain | _ListOf | _MapOf | _Struct

_TEXT, _FLAG, _WHOLE, _COUNT = _Plain.TEXT, _Plain.FLAG, _Plain.WHOLE, _Plain.COUNT
_VALUE, _QUANTITY, _MAPPING, _PRESENT = _Plain.VALUE, _Plain.QUANTITY, _Plain.MAPPING, _Plain.PRESENT
_TEXTS, _LABELS = _ListOf(_TEXT), _MapOf(_TEXT)

_RESOURCES: Final = _Struct({"requests": _MapOf(_QUANTITY), "limits": _MapOf(_QUANTITY)})
_MOUNT: Final = _Struct({"name": _TEXT, "mountPath": _TEXT, "subPath": _TEXT, "readOnly": _FLAG})
_CONTAINER_FIELDS: Final[dict[str, _Type]] = {
    "name": _TEXT,
    "image": _TEXT,
    "imagePullPolicy": _TEXT,
    "command": _TEXTS,
    "args": _TEXTS,
    "workingDir": _TEXT,
    "env": _ListOf(_Struct({"name": _TEXT, "value": _TEXT, "valueFrom": _MAPPING})),
    "envFrom": _ListOf(_MAPPING),
    "ports": _ListOf(
        _Struct(
            {"name": _TEXT, "containerPort": _WHOLE, "hostPort": _WHOLE, "protocol": _TEXT, "hostIP": _TEXT}
        )
    ),
    "resources": _RESOURCES,
    "volumeMounts": _ListOf(_MOUNT),
    "securityContext": _MAPPING,
    "restartPolicy": _TEXT,
}
_CONTAINER: Final = _Struct(_CONTAINER_FIELDS)
_USER_CONTAINER: Final = _Struct({**_CONTAINER_FIELDS, "mirrorVolumeMounts": _FLAG})
_METADATA: Final = _Struct({"labels": _LABELS, "annotations": _LABELS})
_TOLERATION: Final = _Struct({"key": _TEXT, "operator": _TEXT, "value": _TEXT, "effect": _TEXT})
_VALUE_FROM: Final = _Struct(
    {
        "path": _TEXT,
        "jsonPath": _TEXT,
        "jqFilter": _TEXT,
        "event": _TEXT,
        "parameter": _TEXT,
        "expression": _TEXT,
        "default": _VALUE,
        "supplied": _MAPPING,
        "configMapKeyRef": _Struct({"name": _TEXT, "key": _TEXT, "optional": _FLAG}),
    }
)
_PARAMETER: Final = _Struct(
    {
        "name": _TEXT,
        "value": _VALUE,
        "default": _VALUE,
        "valueFrom": _VALUE_FROM,
        "globalName": _TEXT,
        "enum": _ListOf(_VALUE),
        "description": _VALUE,
    }
)
_ARTIFACT: Final = _Struct(
    {
        "name": _TEXT,
        "path": _TEXT,
        "mode": _WHOLE,
        "from": _TEXT,
        "fromExpression": _TEXT,
        "globalName": _TEXT,
        "subPath": _TEXT,
        "optional": _FLAG,
        "archive": _MAPPING,
        "plugin": _Struct({"name": _TEXT, "configuration": _TEXT, "key": _TEXT}),
    }
)
_ARGUMENTS: Final = _Struct({"parameters": _ListOf(_PARAMETER), "artifacts": _ListOf(_ARTIFACT)})
_OUTPUTS: Final = _Struct({**_ARGUMENTS.fields, "result": _TEXT, "exitCode": _TEXT})
_TEMPLATE_REF: Final = _Struct({"name": _TEXT, "template": _TEXT, "clusterScope": _FLAG})
_HOOKS: Final = _MapOf(
    _Struct({"template": _TEXT, "templateRef": _TEMPLATE_REF, "arguments": _ARGUMENTS, "expression": _TEXT})
)
_RETRY: Final = _Struct(
    {
        "limit": _COUNT,
        "retryPolicy": _TEXT,
        "expression": _TEXT,
        "backoff": _Struct({"duration": _TEXT, "factor": _COUNT, "maxDuration": _TEXT, "cap": _TEXT}),
        "affinity": _Struct({"nodeAntiAffinity": _MAPPING}),
    }
)
_SYNCHRONIZATION: Final = _Struct(
    {
        "mutexes": _ListOf(_Struct({"name": _TEXT, "namespace": _TEXT, "database": _FLAG})),
        "semaphores": _ListOf(
            _Struct(
                {
                    "configMapKeyRef": _Struct({"name": _TEXT, "key": _TEXT}),
                    "database": _Struct({"key": _TEXT}),
                    "namespace": _TEXT,
                }
            )
        ),
    }
)
_MEMOIZE: Final = _Struct(
    {
        "key": _TEXT,
        "maxAge": _TEXT,
        "cache": _Struct({"configMap": _Struct({"name": _TEXT, "key": _TEXT})}),
    }
)
_TEMPLATE: Final = _Struct({})  # filled below: a task may hold a whole template (`inline`)
_TASK: Final = _Struct(
    {
        "name": _TEXT,
        "template": _TEXT,
        "templateRef": _TEMPLATE_REF,
        "inline": _TEMPLATE,
        "arguments": _ARGUMENTS,
        "withItems": _ListOf(_PRESENT),
        "withParam": _TEXT,
        "withSequence": _Struct({"count": _COUNT, "start": _COUNT, "end": _COUNT, "format": _TEXT}),
        "when": _TEXT,
        "continueOn": _Struct({"error": _FLAG, "failed": _FLAG}),
        "onExit": _TEXT,
        "hooks": _HOOKS,
        "dependencies": _TEXTS,
        "depends": _TEXT,
    }
)
_SCHEDULING: Final[dict[str, _Type]] = {
    "nodeSelector": _LABELS,
    "affinity": _MAPPING,
    "tolerations": _ListOf(_TOLERATION),
    "schedulerName": _TEXT,
    "serviceAccountName": _TEXT,
    "podSpecPatch": _TEXT,
    "retryStrategy": _RETRY,
    "synchronization": _SYNCHRONIZATION,
    "volumes": _ListOf(_Struct({"name": _TEXT})),
    "hostAliases": _ListOf(_MAPPING),
    "securityContext": _MAPPING,
    "parallelism": _WHOLE,
    "executor": _Struct({"serviceAccountName": _TEXT}),
    "metrics": _Struct({"prometheus": _ListOf(_Struct({"name": _TEXT, "help": _TEXT, "when": _TEXT}))}),
}
_TEMPLATE.fields.update(
    {
        **_SCHEDULING,
        "name": _TEXT,
        "inputs": _ARGUMENTS,
        "outputs": _OUTPUTS,
        "metadata": _METADATA,
        "annotations": _LABELS,
        "daemon": _FLAG,
        "priorityClassName": _TEXT,
        "activeDeadlineSeconds": _COUNT,
        "timeout": _TEXT,
        "failFast": _FLAG,
        "memoize": _MEMOIZE,
        "initContainers": _ListOf(_USER_CONTAINER),
        "sidecars": _ListOf(_USER_CONTAINER),
        "archiveLocation": _Struct({"archiveLogs": _FLAG}),
        "container": _CONTAINER,
        "script": _Struct({**_CONTAINER_FIELDS, "source": _TEXT}),
        "resource": _Struct(
            {
                "action": _TEXT,
                "manifest": _TEXT,
                "manifestFrom": _Struct({"artifact": _ARTIFACT}),
                "mergeStrategy": _TEXT,
                "setOwnerReference": _FLAG,
                "successCondition": _TEXT,
                "failureCondition": _TEXT,
                "flags": _TEXTS,
            }
        ),
        "dag": _Struct({"target": _TEXT, "tasks": _ListOf(_TASK), "failFast": _FLAG}),
        "steps": _ListOf(_ListOf(_TASK)),
        "containerSet": _Struct(
            {
                "containers": _ListOf(_Struct({**_CONTAINER_FIELDS, "dependencies": _TEXTS})),
                "volumeMounts": _ListOf(_MOUNT),
                "retryStrategy": _Struct({"duration": _TEXT, "retries": _COUNT}),
            }
        ),
        "suspend": _Struct({"duration": _TEXT}),
        "data": _Struct({"source": _MAPPING, "transformation": _ListOf(_Struct({"expression": _TEXT}))}),
        "http": _Struct({"url": _TEXT, "method": _TEXT, "body": _TEXT, "timeoutSeconds": _WHOLE}),
        "plugin": _MAPPING,
    }
)

WORKFLOW_SPEC: Final = _Struct(
    {
        **_SCHEDULING,
        "entrypoint": _TEXT,
        "arguments": _ARGUMENTS,
        "templates": _ListOf(_TEMPLATE),
        "templateDefaults": _TEMPLATE,
        "workflowTemplateRef": _Struct({"name": _TEXT, "clusterScope": _FLAG}),
        "podPriorityClassName": _TEXT,
        "priority": _WHOLE,
        "onExit": _TEXT,
        "hooks": _HOOKS,
        "suspend": _FLAG,
        "shutdown": _TEXT,
        "hostNetwork": _FLAG,
        "dnsPolicy": _TEXT,
        "activeDeadlineSeconds": _WHOLE,
        "podMetadata": _METADATA,
        "podGC": _Struct({"strategy": _TEXT, "deleteDelayDuration": _TEXT, "labelSelector": _MAPPING}),
        "archiveLogs": _FLAG,
        "imagePullSecrets": _ListOf(_Struct({"name": _TEXT})),
        "volumeClaimTemplates": _ListOf(_Struct({"metadata": _MAPPING, "spec": _MAPPING})),
        "workflowMetadata": _METADATA,
    }
)
CRON_WORKFLOW_SPEC: Final = _Struct(
    {
        "workflowSpec": WORKFLOW_SPEC,
        "schedules": _TEXTS,
        "timezone": _TEXT,
        "concurrencyPolicy": _TEXT,
        "suspend": _FLAG,
        "startingDeadlineSeconds": _WHOLE,
        "workflowMetadata": _METADATA,
        "when": _TEXT,
    }
)


def check_fields(value: object, expected: _Struct, path: str, problems: Problems) -> None:
    """Note every field of `value`, which stands at `path`, that has another type than expected."""
    _check(value, expected, path, problems)


def _check(value: object, expected: _Type, path: str, problems: Problems) -> None:
    if value is None:
        return  # null is absent, as in the API
    match expected:
        case _Struct(fields):
            _check_mapping(value, fields, None, path, problems)
        case _MapOf(inner):
            _check_mapping(value, {}, inner, path, problems)
        case _ListOf(inner):
            _check_list(value, inner, path, problems)
        case _Plain.QUANTITY:
            _check_quantity(value, path, problems)
        case _:
            if not _has_type(value, expected):
                problems.add(path, value, expected.value)


def _check_mapping(
    value: object, fields: Mapping[str, _Type], others: _Type | None, path: str, problems: Problems
) -> None:
    if not isinstance(value, Mapping):
        problems.add(path, value, _MAPPING.value)
        return
    for key, item in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str):
            problems.add(path, key, "its keys are text; quote what YAML reads as something else")
            continue
        expected = fields.get(key, others)
        if expected is not None:
            _check(item, expected, f"{path}.{key}", problems)


def _check_list(value: object, inner: _Type, path: str, problems: Problems) -> None:
    if not isinstance(value, list):
        problems.add(path, value, "write a list")
        return
    for number, item in enumerate(cast("list[object]", value)):
        if item is None and not isinstance(inner, _Plain):  # Go takes null for an empty text
            problems.add(f"{path}[{number}]", item, "write an element, or remove the empty one")
        _check(item, inner, f"{path}[{number}]", problems)


def _has_type(value: object, expected: _Plain) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    match expected:
        case _Plain.TEXT:
            return isinstance(value, str)
        case _Plain.FLAG:
            return isinstance(value, bool)
        case _Plain.WHOLE:
            return is_whole
        case _Plain.COUNT:
            return isinstance(value, str) or is_whole
        case _Plain.VALUE:
            return isinstance(value, str | bool | int | float)
        case _Plain.MAPPING:
            return isinstance(value, Mapping)
        case _:
            return True


def _check_quantity(value: object, path: str, problems: Problems) -> None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        problems.add(path, value, _QUANTITY.value)
    elif "{{" not in str(value):
        try:
            parse_quantity(value)
        except InvalidQuantity as error:
            problems.add(path, value, str(error).rpartition("; ")[2])
