"""The variables that hold in the whole workflow, as far as they are known before it runs.

Source: Argo Workflows 4.0, `operator.go` (setGlobalParameters).
"""

from __future__ import annotations

import json
from typing import cast

from stowplan.kube.argo.objects import ArgoObject, Json, as_list, as_mapping, text_of
from stowplan.kube.argo.variables import go_text, put_in

__all__ = ["global_variables", "parameter_value"]


def parameter_value(parameter: Json) -> str | None:
    """Return the text of a parameter's value, None where it has none.

    One that comes from a ConfigMap, an event or the outside (`valueFrom`) is a variable that names the
    source.
    """
    for key in ("value", "default"):
        if parameter.get(key) is not None:
            return go_text(parameter[key])
    source = parameter.get("valueFrom")
    if source is None:
        return None
    fields = as_mapping(source)
    reference = as_mapping(fields.get("configMapKeyRef"))
    if reference:
        return f"{{{{configMap.{text_of(reference.get('name'))}.{text_of(reference.get('key'))}}}}}"
    kind = next(
        (key for key in ("event", "supplied", "expression") if fields.get(key) is not None), "valueFrom"
    )
    return f"{{{{{kind}.{text_of(parameter.get('name'))}}}}}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def global_variables(own: ArgoObject, spec: Json) -> dict[str, str]:
    """Return the variables of the workflow `own` that runs the effective `spec`."""
    metadata = as_mapping(own.raw.get("metadata"))
    found = {
        "workflow.mainEntrypoint": text_of(spec.get("entrypoint")),
        "workflow.serviceAccountName": text_of(spec.get("serviceAccountName")),
    }
    if own.kind == "Workflow":
        created, uid = metadata.get("creationTimestamp"), metadata.get("uid")
        known = {
            "workflow.name": own.name,
            "workflow.namespace": own.namespace,
            "workflow.uid": uid,
            "workflow.creationTimestamp": created,
            "workflow.scheduledTime": own.annotations.get("workflows.argoproj.io/scheduled-time"),
        }
        found.update({name: value for name, value in known.items() if isinstance(value, str) and value})
    if isinstance(spec.get("priority"), int):
        found["workflow.priority"] = str(spec["priority"])
    parameters = as_list(as_mapping(spec.get("arguments")).get("parameters"))
    if parameters:
        texts = [
            {**item, "value": go_text(item["value"])} if item.get("value") is not None else item
            for item in parameters
        ]
        found["workflow.parameters"] = found["workflow.parameters.json"] = _json(texts)
    for parameter in parameters:
        value = parameter_value(parameter)
        if value is not None:
            found[f"workflow.parameters.{text_of(parameter.get('name'))}"] = value
    shared = as_mapping(spec.get("workflowMetadata"))
    for kind, own_values in (("annotations", own.annotations), ("labels", own.labels)):
        values = {**own_values, **as_mapping(shared.get(kind))}
        for key, value in values.items():
            if key not in as_mapping(shared.get("labelsFrom")):
                found[f"workflow.{kind}.{key}"] = go_text(value)
    return {name: cast("str", put_in(value, found)) for name, value in found.items()}
