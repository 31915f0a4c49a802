"""Every shared Argo example can be followed from its submission to its end.

The expected picture of each before it begins (tasks, edges, counts, what is left) is kept beside this file;
`python -m tests.golden.workflows.test_examples FOLDER` writes it anew, for a look at what changed.
"""

import json
import sys
from pathlib import Path

import pytest
import yaml

from stowplan.core.domain import TaskStatus
from stowplan.kube.argo import ArgoObject, NodeKind, is_argo_object, open_object
from tests.unit.workflows.cases import Followed, Json, node, status

PICTURES = Path(__file__).parent / "pictures.json"


def _examples(folder: Path) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path in sorted(folder.rglob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(path.read_text())):
            if document and is_argo_object(document):
                found[f"{path.relative_to(folder)}#{number}"] = document
    return found


def _as_live(raw: Json) -> Json:
    """The workflow as the API server has it: with a name and a namespace."""
    metadata = {**raw.get("metadata", {}), "name": "wf", "namespace": "jobs"}
    return {**raw, "metadata": metadata}


def _followed(raw: Json, templates: list[ArgoObject]) -> Followed | None:
    seen = Followed(_as_live(raw), *templates)
    try:
        seen.see()
    except AssertionError:
        return None  # it has no graph
    return seen


def _picture(seen: Followed) -> Json:
    progress = seen.live.progress
    return {
        "open": seen.open(),
        "ready": sorted(place for place, state in seen.states().items() if state == "PENDING"),
        "remaining_work_s": progress.remaining_work_s,
        "longest_way_s": max(seen.ranks().values(), default=0.0),
    }


def _all(folder: Path) -> dict[str, tuple[Followed, Json]]:
    examples = _examples(folder)
    templates: list[ArgoObject] = []
    for raw in examples.values():
        opened = open_object(raw)
        if opened.is_template:
            templates.append(open_object({**raw, "metadata": {**raw["metadata"], "namespace": "jobs"}}))
    found: dict[str, tuple[Followed, Json]] = {}
    for name, raw in examples.items():
        if raw["kind"] == "Workflow":
            seen = _followed(raw, templates)
            if seen is not None:
                found[name] = (seen, _picture(seen))
    return found


@pytest.fixture(scope="module")
def followed(shared_data: Path) -> dict[str, tuple[Followed, Json]]:
    return _all(shared_data / "argo-examples")


def test_before_they_begin_they_look_as_they_did(followed: dict[str, tuple[Followed, Json]]) -> None:
    assert {name: picture for name, (_, picture) in followed.items()} == json.loads(PICTURES.read_text())


def test_each_can_be_followed_to_its_end_task_by_task(followed: dict[str, tuple[Followed, Json]]) -> None:
    for name, (seen, _) in followed.items():
        nodes: dict[str, Json] = {}
        index = seen.live.index
        for task in range(len(index)):
            of_graph = seen.node(task)
            if of_graph.kind is NodeKind.JOIN or "*" in of_graph.place:
                continue
            path = "".join(f"({part[1:]}:x)" if part[:1] == "#" else part for part in _parts(of_graph.place))
            nodes[path] = node("Succeeded", "Retry" if of_graph.retry is not None else "Pod")
            seen.see(status(nodes=nodes))
            assert seen.live.progress.status[task] == TaskStatus.DONE, f"{name}: {of_graph.place}"
        nodes[""] = node("Succeeded", "DAG") if "" not in nodes else nodes[""]
        seen.see(status("Succeeded", nodes))
        assert seen.live.progress.is_finished, name
        assert seen.live.progress.remaining_work_s == 0.0, name


def _parts(place: str) -> list[str]:
    return place.replace("#", "\0#").replace(".", "\0.").replace("[", "\0[").split("\0")


if __name__ == "__main__":
    pictures = {name: picture for name, (_, picture) in _all(Path(sys.argv[1])).items()}
    PICTURES.write_text(json.dumps(pictures, indent=1, sort_keys=True) + "\n")
