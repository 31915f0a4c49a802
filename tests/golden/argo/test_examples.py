"""Every manifest of the shared argo-examples is read, or refused for the reason for which Argo refuses it.

`examples_refused.json` holds what the validation of Argo Workflows 4.0.5 itself said of those that it
refused, with all other examples as the templates that may be referred to: they refer to templates that are
not among them.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.kube.argo import (
    ArgoObject,
    MalformedWorkflow,
    Shelf,
    check_object,
    is_argo_object,
    open_object,
    read_graph,
    to_domain,
)

REFUSED: dict[str, str] = json.loads((Path(__file__).parent / "examples_refused.json").read_text())["refused"]
OTHER_KINDS = {"PersistentVolumeClaim", "WorkflowEventBinding"}


@pytest.fixture(scope="module")
def examples(shared_data: Path) -> dict[str, dict[str, Any]]:
    """The documents by file and number."""
    folder = shared_data / "argo-examples"
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*.yaml")):
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
        found |= {
            f"{path.relative_to(folder)}#{number}": document for number, document in enumerate(documents)
        }
    return found


@pytest.fixture(scope="module")
def opened(examples: dict[str, dict[str, Any]]) -> dict[str, ArgoObject]:
    """Those that are of Argo, with their types checked."""
    return {key: open_object(raw) for key, raw in examples.items() if is_argo_object(raw)}


def test_only_other_kinds_are_left_out(
    examples: dict[str, dict[str, Any]], opened: dict[str, ArgoObject]
) -> None:
    assert len(opened) > 150
    assert {examples[key]["kind"] for key in examples.keys() - opened.keys()} == OTHER_KINDS


def test_every_example_is_read_or_refused_as_argo_does(
    examples: dict[str, dict[str, Any]], opened: dict[str, ArgoObject]
) -> None:
    before = copy.deepcopy(examples)
    shelf = Shelf(opened.values())
    refused: dict[str, str] = {}
    pods = 0
    for key, example in opened.items():
        try:
            check_object(example, shelf)
            if example.spec.get("entrypoint") or example.spec.get("workflowTemplateRef"):
                graph = read_graph(example, shelf)
                view = to_domain(graph, lambda _: 1.0)
                assert len(view.workflow) > 0
                pods += sum(view.has_pod)
        except MalformedWorkflow as error:
            refused[key] = str(error)
    assert refused.keys() == REFUSED.keys()
    for key, reason in REFUSED.items():
        assert "not found" in reason
        assert "Template of that name; create it" in refused[key]
    assert pods > 400
    assert examples == before  # what was read is as it was
