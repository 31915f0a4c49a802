"""The delay relay's routes and its shared words, without a network."""

import os
import struct
import subprocess
from pathlib import Path

import pytest

from testbed.errors import MissingPrerequisite
from testbed.images import compiled_program
from testbed.nodes import delay
from testbed.site import Site

SITE = Site("unit", 130)
FOLDER = Path(delay.__file__).parent


def test_only_what_comes_from_a_node_for_a_node_goes_through_the_relay() -> None:
    assert delay._routes(SITE, [1, 2]) == [
        "route add 10.130.0.11/32 dev delay table 100",
        "route add 10.130.1.0/24 dev delay table 100",
        "rule add iif node1 lookup 100",
        "route add 10.130.0.12/32 dev delay table 100",
        "route add 10.130.2.0/24 dev delay table 100",
        "rule add iif node2 lookup 100",
    ]


@pytest.mark.parametrize(("delay_s", "nanoseconds"), [(0, 0), (0.0125, 12_500_000), (10, 10**10)])
def test_a_delay_is_passed_on_in_nanoseconds(delay_s: float, nanoseconds: int) -> None:
    assert struct.unpack("=Q", delay._delay_field(delay_s)) == (nanoseconds,)


@pytest.mark.parametrize("delay_s", [-0.001, 10.1, float("nan"), float("inf")])
def test_what_is_no_delay_is_refused(delay_s: float) -> None:
    with pytest.raises(MissingPrerequisite, match=r"delay_s=.*: must be from 0 to 10 seconds"):
        delay._delay_field(delay_s)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Error: usage: relay DEVICE SHARED-FILE"),
        (["delay", "/nonexistent/file"], "Error: /nonexistent/file: No such file or directory"),
    ],
)
def test_the_relay_says_what_it_lacks(arguments: list[str], said: str) -> None:
    program = compiled_program("relay", FOLDER)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode != 0
    assert done.stderr == said + "\n"
