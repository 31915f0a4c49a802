"""What is refused here, against what Argo's own validation refuses (recorded, see `record/`)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo import Shelf, check_object, open_object

CASES = Path(__file__).parent / "cases"
Case = dict[str, Any]


VERDICTS: list[Case] = [json.loads(line) for line in (CASES / "verdicts.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf(
        open_object(document)
        for document in yaml.safe_load_all((CASES / "by_hand.yaml").read_text())
        if document["kind"].endswith("Template")
    )


@pytest.mark.parametrize("number", range(len(VERDICTS)))
def test_a_damaged_workflow_is_refused_where_argo_refuses_it(number: int, shelf: Shelf) -> None:
    case = VERDICTS[number]
    try:
        check_object(open_object(case["manifest"]), shelf)
    except InvalidWorkflow as error:
        assert case["argo"], str(error)  # noqa: PT017  (either outcome may be the right one)
    else:
        assert not case["argo"]


def test_both_verdicts_are_among_the_cases() -> None:
    refused = [bool(case["argo"]) for case in VERDICTS]
    assert 40 < sum(refused) < len(refused) - 40
