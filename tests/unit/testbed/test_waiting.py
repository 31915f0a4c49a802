"""Waiting gives up in time and says what it saw; a process that ends is told by the line that says why."""

import pytest

from testbed.daemons import _telling_line
from testbed.errors import ComponentFailed
from testbed.waiting import wait_for


def test_it_returns_what_it_waited_for() -> None:
    answers = iter([None, "", "ready"])
    assert wait_for("a node", lambda: next(answers), 5.0) == "ready"


def test_it_gives_up_and_says_what_it_saw_last() -> None:
    with pytest.raises(ComponentFailed, match=r"^two nodes: not within 0\.05 s \(last seen: set\(\)\)$"):
        wait_for("two nodes", set[str], 0.05)


def test_an_exception_of_the_look_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for("nothing", lambda: 1 // 0, 5.0)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "it said nothing"),
        ("one\ntwo\n\n", "two"),
        ("Error: no such flag\nUsage:\n  --help\n", "Error: no such flag"),
        ("I0101 started\npanic: boom\n\ngoroutine 1\n", "panic: boom"),
        ("F0101 12:00 cannot listen\n", "F0101 12:00 cannot listen"),
    ],
)
def test_the_line_that_says_why(tmp_path_factory: pytest.TempPathFactory, log: str, line: str) -> None:
    file = tmp_path_factory.mktemp("logs") / "kubelet.log"
    file.write_text(log)
    assert _telling_line(file) == line
