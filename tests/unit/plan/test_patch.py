"""Patches by the way they are written, applied by a library that is not ours."""

import copy
import json
from typing import Any

import jsonpatch
import pytest

from stowplan.kube.argo.objects import as_mapping
from stowplan.kube.plan.outcome import shown_path
from stowplan.kube.plan.patch import Draft, pointer_text

Json = dict[str, Any]


def drafted(document: Json, *changes: tuple[tuple[str | int, ...], object]) -> Draft:
    """A draft with these changes, which leave the document itself as it was and agree with the patch."""
    before = copy.deepcopy(document)
    draft = Draft(document)
    for path, value in changes:
        draft.put(path, value)
    assert document == before
    patch = [operation.to_json() for operation in draft.operations]
    assert jsonpatch.apply_patch(json.loads(json.dumps(document)), patch) == draft.document
    return draft


def operations(draft: Draft) -> list[tuple[str, str, object]]:
    return [(item.op, pointer_text(item.path), item.value) for item in draft.operations]


def test_an_absent_field_is_added_with_the_mappings_that_lack() -> None:
    draft = drafted({"spec": {}}, (("spec", "a", "b", "c"), 1), (("spec", "a", "b", "d"), 2))
    assert operations(draft) == [("add", "/spec/a", {"b": {"c": 1}}), ("add", "/spec/a/b/d", 2)]


def test_a_value_is_replaced_only_while_it_is_what_it_was() -> None:
    draft = drafted({"spec": {"a": None, "b": ""}}, (("spec", "a", "c"), 1), (("spec", "b"), "x"))
    assert operations(draft) == [
        ("add", "/spec/a", {"c": 1}),  # null is absent to the API server
        ("test", "/spec/b", ""),
        ("replace", "/spec/b", "x"),
    ]


def test_the_same_value_needs_no_operation() -> None:
    assert drafted({"a": {"b": [1]}}, (("a", "b"), [1])).operations == []


def test_elements_of_lists_are_held_by_name_once() -> None:
    document: Json = {"list": [{"name": "x"}, {"name": "y", "list": [{"k": 1}]}]}
    draft = drafted(document, (("list", 1, "k"), 1), (("list", 1, "list", 0, "j"), 2))
    assert operations(draft) == [
        ("test", "/list/1/name", "y"),
        ("add", "/list/1/k", 1),
        ("add", "/list/1/list/0/j", 2),
    ]
    document["list"].reverse()
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(document, [item.to_json() for item in draft.operations])


def test_keys_with_the_signs_of_pointers() -> None:
    draft = drafted({"a/b": {"c~d": {}}}, (("a/b", "c~d", "x.io/y~1"), 1))
    assert operations(draft) == [("add", "/a~1b/c~0d/x.io~1y~01", 1)]


def test_only_the_way_to_a_change_is_copied_and_shared_objects_do_not_change_together() -> None:
    shared: Json = {"image": "x"}
    document: Json = {"list": [{"container": shared}, {"container": shared}], "other": {}}
    draft = drafted(document, (("list", 0, "container", "image"), "y"))
    assert draft.document["other"] is document["other"]
    assert draft.get(("list", 1, "container", "image")) == "x"


def test_order_of_keys_stays() -> None:
    draft = drafted({"z": 1, "a": {"y": 1, "b": 2}}, (("a", "c"), 3), (("a", "y"), 4))
    assert list(draft.document) == ["z", "a"]
    assert list(as_mapping(draft.document["a"])) == ["y", "b", "c"]


def test_paths_for_people() -> None:
    assert (
        shown_path(("spec", "templates", 2, "metadata", "x.io/y")) == 'spec.templates[2].metadata["x.io/y"]'
    )
