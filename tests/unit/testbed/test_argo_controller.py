"""The controller's process: started again when it crashes, ended with its loop; what fails says why."""

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.argo import controller
from testbed.control_plane import ControlPlane
from testbed.errors import ComponentFailed
from testbed.site import Site
from testbed.waiting import wait_for


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    """A control plane of which only the place exists."""
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    site = Site("x", 128)
    site.log(controller.NAME).parent.mkdir(parents=True)
    return cast("ControlPlane", SimpleNamespace(site=site))


def loop(log: Path, script: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            ["sh", "-c", controller.LOOP, "loop", "0.01", "sh", "-c", script], stdout=output, stderr=output
        )


def test_a_crashed_controller_is_started_again_and_counted(plane: ControlPlane) -> None:
    log = plane.site.log(controller.NAME)
    process = loop(log, "echo started; exit 3")
    wait_for("three crashes", lambda: controller.restarts(plane) >= 3, 5.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5.0) == 0
    lines = log.read_text().splitlines()
    assert lines[:3] == [
        "started",
        f"{controller.RESTARTED} with exit code 3; it is started again",
        "started",
    ]


def test_the_controller_ends_with_its_loop(plane: ControlPlane) -> None:
    log = plane.site.log(controller.NAME)
    process = loop(log, "echo $$; exec sleep 600")
    child = int(wait_for("the controller runs", lambda: log.read_text().strip(), 5.0))
    process.send_signal(signal.SIGTERM)
    assert process.wait(5.0) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert controller.restarts(plane) == 0


def test_a_start_that_fails_says_why_at_once(plane: ControlPlane) -> None:
    log = plane.site.log(controller.NAME)
    log.write_text(f"reading\nno such configuration\n{controller.RESTARTED} with exit code 1; …\nreading\n")
    with pytest.raises(ComponentFailed, match=f"ended: no such configuration .*{log}"):
        controller.is_ready(plane)


def test_a_start_without_a_word_is_told_too(plane: ControlPlane) -> None:
    plane.site.log(controller.NAME).write_text(f"{controller.RESTARTED} with exit code 1; …\n")
    with pytest.raises(ComponentFailed, match="it said nothing"):
        controller.is_ready(plane)


def test_pods_of_workflows_never_ask_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "image_name", lambda name: f"docker.io/stowplan/{name}:1")
    executor: dict[str, Any] = controller.configuration()["executor"]
    assert executor["image"] == "docker.io/stowplan/argoexec:1"
    assert executor["imagePullPolicy"] == "Never"
