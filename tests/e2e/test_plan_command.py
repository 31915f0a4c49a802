"""`stowplan plan` as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

import jsonpatch
import yaml

from tests.plan_cases import CALLER, LIBRARY, OTHER

STOWPLAN = Path(sys.executable).parent / "stowplan"


def plan(*arguments: str | Path, text_in: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STOWPLAN, "plan", *arguments], input=text_in, capture_output=True, text=True, check=False
    )


def test_documents_of_standard_input_come_out_in_order_with_what_was_unknown() -> None:
    done = plan("-f", "-", text_in=f"{OTHER}---\n{LIBRARY}---\n{CALLER}")
    assert done.returncode == 0, done.stderr
    other, library, caller = yaml.safe_load_all(done.stdout)
    assert other == yaml.safe_load(OTHER)
    assert list(library["spec"]["future-field"].items()) == [("b", 1), ("a", 2)]
    assert library["spec"]["templates"][0]["container"]["args"] == ["no", "0644"]
    assert library["spec"]["schedulerName"] == "stowplan"
    assert "schedulerName" not in caller["spec"]  # it has it from there
    assert caller["spec"]["podMetadata"]["annotations"] == {"stowplan.io/origin": "template/lib"}
    assert "ConfigMap is passed through" in done.stderr
    assert 'set spec.schedulerName to "stowplan"' in done.stderr


def test_planning_twice_changes_nothing(repository: Path) -> None:
    first = plan("-f", repository / "examples" / "workflow.yaml")
    second = plan("-f", "-", text_in=first.stdout)
    assert second.stdout == first.stdout
    assert "nothing is changed" in second.stderr


def test_patches_apply_to_the_input(repository: Path) -> None:
    file = repository / "examples" / "workflow.yaml"
    options = ("--mode", "extender", "--priority-class", "low", "--priority-class", "high")
    answer = json.loads(plan("-f", file, *options, "-o", "patch").stdout)
    raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    planned = yaml.safe_load(plan("-f", file, *options).stdout)
    assert jsonpatch.apply_patch(raw, answer[0]["patch"]) == planned
    classes = [item.get("priorityClassName") for item in planned["spec"]["templates"]]
    assert classes == [None, "high", "high", "low", "low", "low"]
    assert any("default-scheduler" in line for line in plan("-f", file, "-o", "why").stdout.splitlines())


def test_options_reach_the_plan(repository: Path) -> None:
    file = repository / "examples" / "workflow.yaml"
    done = plan(
        "-f", file, "--mode", "gate", "--scheduler-name", "volcano", "--requests", "cpu=1,memory=1Gi",
        "--prefer", "topology.kubernetes.io/zone=a,b:7",
    )  # fmt: skip
    spec = yaml.safe_load(done.stdout)["spec"]
    assert spec["schedulerName"] == "volcano"
    assert json.loads(spec["podSpecPatch"]) == {"schedulingGates": [{"name": "stowplan.io/placement"}]}
    assert spec["templates"][1]["container"]["resources"]["requests"] == {"cpu": "1000m", "memory": "1024Mi"}
    term = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["weight"] == 7
    strict = plan(
        "-f", "-", "--template-referencing", "strict", "--allow-field", "schedulerName", "-o", "patch",
        text_in=f"{LIBRARY}---\n{CALLER}",
    )  # fmt: skip
    answers = json.loads(strict.stdout)
    assert answers[0]["patch"] != []
    assert answers[1]["patch"] == []
    assert any("plan lib instead" in line for line in answers[1]["why"])
