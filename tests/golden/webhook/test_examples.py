"""Every shared argo-example through the webhook: the patch is the plan's, and none is refused."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import jsonpatch
import pytest

from stowplan.kube.argo import Shelf, is_argo_object, open_object
from stowplan.kube.plan import plan_object
from stowplan.serve.webhook.admission import Admission, Result
from tests.golden.plan.cases import OPTIONS, Json, read_examples
from tests.unit.webhook.reviews import mutated, patch_of, validated


@pytest.fixture(scope="module")
def examples(shared_data: Path) -> dict[str, Json]:
    """Those that are of Argo."""
    found = {key: raw for key, raw in read_examples(shared_data).items() if is_argo_object(raw)}
    assert len(found) > 150
    return found


@pytest.fixture(scope="module")
def shelf(examples: dict[str, Json]) -> Shelf:
    return Shelf(open_object(raw) for raw in examples.values())


@pytest.mark.parametrize("name", OPTIONS)
def test_the_patch_of_every_example_is_its_plan(examples: dict[str, Json], shelf: Shelf, name: str) -> None:
    admission = Admission(OPTIONS[name], source=shelf)
    results: list[Result] = []
    for key, raw in examples.items():
        before = copy.deepcopy(raw)
        # The API server has set the namespace by then, except on objects that have none.
        namespace = "" if raw["kind"] == "ClusterWorkflowTemplate" else "argo"
        result, response = mutated(admission, raw, namespace=namespace)
        patched = jsonpatch.apply_patch(json.loads(json.dumps(raw)), patch_of(response))
        assert patched == plan_object(raw, OPTIONS[name], source=shelf).result, key
        assert raw == before, key
        again, response = mutated(admission, patched, namespace=namespace)
        assert (again, patch_of(response)) == (Result.UNCHANGED, []), key
        results.append(result)
    assert set(results) <= {Result.PLANNED, Result.UNCHANGED}
    assert (results.count(Result.PLANNED) > 150) == (name != "strict")


def test_no_example_is_refused_planned_or_not(examples: dict[str, Json], shelf: Shelf) -> None:
    for source in (None, shelf):
        admission = Admission(OPTIONS["binder"], source=source)
        for key, raw in examples.items():
            planned = jsonpatch.apply_patch(json.loads(json.dumps(raw)), patch_of(mutated(admission, raw)[1]))
            for item in (raw, planned):
                result, response = validated(admission, item)
                assert result is Result.VALID, f"{key}: {response}"


def _paths(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The ways to everything in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from _paths(item, (*at, key))


@pytest.mark.parametrize("value", [None, [None], {"": None}], ids=["null", "list-of-null", "mapping-to-null"])
def test_nothing_anywhere_is_a_fault_that_is_told_and_no_defect(
    examples: dict[str, Json], value: object
) -> None:
    """Go takes null for the empty value of any type; so do our readers, wherever it stands."""
    admission = Admission(OPTIONS["binder"])
    seen: set[tuple[str, ...]] = set()
    results: list[Result] = []
    for raw in examples.values():
        for at in list(_paths(raw["spec"])):
            place = tuple("*" if isinstance(token, int) else token for token in at[-4:])
            if place in seen:
                continue
            seen.add(place)
            changed = copy.deepcopy(raw)
            holder = changed["spec"]
            for token in at[:-1]:
                holder = holder[token]
            holder[at[-1]] = copy.deepcopy(value)
            results += [mutated(admission, changed)[0], validated(admission, changed)[0]]
    assert len(seen) > 400
    assert {Result.PLANNED, Result.VALID, Result.MALFORMED, Result.REFUSED} >= set(results)
    assert results.count(Result.REFUSED) > 50
