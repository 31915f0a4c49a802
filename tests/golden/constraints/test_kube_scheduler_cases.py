"""Small clusters with the verdict of kube-scheduler 1.37.2's own filter plugins, node by node.

The verdicts were made with the plugins linked as a library (k8s.io/kubernetes v1.37.2), each asked alone, so
that a filter that would be asked too late to be decisive is compared as well.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.core.constraints import CompiledFilters
from stowplan.kube.manifest import feasible_report, load_objects

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_every_filter_refuses_the_nodes_that_kube_scheduler_refuses(path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text())
    loaded = load_objects(case["objects"])
    refused: dict[str, dict[str, list[str]]] = {}
    for pod in loaded.pending:
        compiled = CompiledFilters(loaded.state, pod.shape)
        by_filter: dict[str, list[str]] = {}
        for name, row in loaded.state.rows():
            for refusing in compiled.all_refusing(row):
                by_filter.setdefault(refusing, []).append(name)
        refused[pod.key] = {name: sorted(nodes) for name, nodes in sorted(by_filter.items())}
    assert refused == case["refused"]


def test_the_report_agrees_with_the_cases() -> None:
    case: dict[str, Any] = yaml.safe_load(CASES[0].read_text())
    loaded = load_objects(case["objects"])
    report: dict[str, Any] = feasible_report(loaded.state, loaded.pending)
    assert list(report["pods"]) == [pod.key for pod in loaded.pending]
    for key, answer in report["pods"].items():
        somewhere = {node for nodes in case["refused"][key].values() for node in nodes}
        assert set(answer["refused"]) == somewhere
        assert set(answer["feasible"]) == {name for name, _ in loaded.state.rows()} - somewhere
        assert all(refusal["reason"] for refusal in answer["refused"].values())
