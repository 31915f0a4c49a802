"""`stowplan status`: what a running scheduler answers, as a table that people can read and as JSON."""

import json
from typing import Any

import pytest

from stowplan.cli import status
from stowplan.cli.options import OutputFormat
from stowplan.errors import InvalidInput

ANSWER: dict[str, Any] = {
    "mode": "binder",
    "leads": True,
    "up_s": 12.3456,
    "scheduler": {"queues": {"active": 3, "in_flight": 0}, "closed": [], "last_cycle": None},
    "kinds": {
        "Pod": {"state": "watching", "events": 9, "unusable": 0},
        "Node": {"state": "watching", "events": 2, "unusable": 1},
        "Service": {"state": "waiting", "events": 0, "unusable": 0},
    },
    "workflows": {"accuracy": [{"workflow": "lab/a", "tasks": 6}, {"workflow": "lab/b", "tasks": 7}]},
    "degraded": {"history": "its disk is full"},
}


def shown(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None, output: OutputFormat) -> int:
    def ask(server: str, path: str) -> dict[str, Any] | None:
        assert (server, path) == ("http://here", "/v1/status")
        return json.loads(json.dumps(answer))

    monkeypatch.setattr(status, "ask", ask)
    return status.show_status("http://here", output)


def test_the_table_has_a_line_per_fact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch, ANSWER, OutputFormat.TABLE) == 0
    lines = {
        name.strip(): text.strip()
        for name, _, text in (line.partition("   ") for line in capsys.readouterr().out.splitlines())
    }
    assert lines["mode"] == "binder"
    assert lines["leads"] == "yes"
    assert lines["up s"] == "12.35"
    assert lines["scheduler · queues · active"] == "3"
    assert lines["scheduler · last cycle"] == "–"
    assert lines["kinds · watched well"] == "1"
    assert lines["kinds · Node · unusable"] == "1"
    assert lines["kinds · Service · state"] == "waiting"
    assert "kinds · Pod · state" not in lines
    assert lines["workflows · accuracy"] == "workflow lab/a, tasks 6; workflow lab/b, tasks 7"
    assert lines["degraded · history"] == "its disk is full"


def test_json_is_the_answer_as_it_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch, ANSWER, OutputFormat.JSON) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER


def test_what_is_no_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="--server"):
        shown(monkeypatch, None, OutputFormat.TABLE)
