"""What `stowplan plan` refuses: a line per fault, exit code 2, nothing on standard output."""

import io
import json

import pytest
import yaml

from stowplan.cli.process import run
from tests.plan_cases import CALLER, LIBRARY, OTHER

MALFORMED = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: broken}
spec: {entrypoint: main, templates: [{name: no, container: {image: 1}}]}
"""


@pytest.mark.parametrize(
    ("text", "arguments", "lines"),
    [
        (f"{LIBRARY}---\n{MALFORMED}", (), ["spec.templates[0].name is False", "container.image is 1"]),
        ("[1]\n", (), ["standard input:1: is no Kubernetes object"]),
        ("a: 1\n", (), ["is no Kubernetes object"]),
        ("a: [\n", (), ["is not usable YAML"]),
        (
            json.dumps({"kind": "List", "items": [yaml.safe_load(CALLER)]}),
            (),
            ["a List with workflows in it"],
        ),
        (OTHER, ("--requests", "cpu=1"), ["--requests cpu=1: write"]),
        (OTHER, ("--requests", "cpu=1,memory=lots"), ["quantity 'lots'"]),
        (OTHER, ("--prefer", "zone"), ["--prefer zone: write LABEL"]),
        (OTHER, ("--prefer", "zone=a:x"), ["--prefer zone=a:x: write LABEL"]),
        (OTHER, ("--prefer", "zone=a:101"), ["within 1 and 100"]),
        (OTHER, ("--scheduler-name", "No!"), ["scheduler name 'No!'"]),
        (OTHER, ("--mode", "magic"), ["'magic' is not one of"]),
    ],
)
def test_bad_input_is_a_line_each(
    text: str,
    arguments: tuple[str, ...],
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["plan", "-f", "-", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    told = error.splitlines()
    assert len(told) == len(lines)
    for line, words in zip(told, lines, strict=True):
        assert line.startswith("error: ")
        assert words in line
