"""Limits, results on disk, the generated page, and the command."""

import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from bench import __main__ as command
from bench.harness import Row
from bench.limits import Limit, Measured, Operator, check, read_limits
from bench.report import DOCS_FILE, Machine, Result, read_results, render, write_result
from testbed.errors import MissingPrerequisite

MACHINE = Machine("A CPU", 2, 24, "6.1.0", "3.11.7", {"numpy": "2.4.6"})
ROW = Row(
    name="area/thing",
    what="time of a thing",
    unit="s",
    median=0.25,
    ci95_low=0.2,
    ci95_high=0.3,
    samples=7,
    peer="Peer 4",
    peer_median=5.0,
    ratio=20.0,
    ratio_ci95=(19.0, 21.0),
    note="with care",
)
RESULT = Result("area_thing", "A thing", "2026-11-30", "python -m bench area_thing", MACHINE, [ROW])


def limit(op: str, value: float, of: Measured = Measured.MEDIAN) -> Limit:
    return Limit(op=Operator(op), value=value, source="somebody", of=of)


@pytest.mark.parametrize(
    ("demand", "holds"),
    [
        (limit("<=", 0.25), True),
        (limit("<=", 0.24), False),
        (limit(">=", 20.0, Measured.RATIO), True),
        (limit(">=", 20.1, Measured.RATIO), False),
        (limit("==", 0.25), True),
        (limit("==", 0.2500001), False),
    ],
)
def test_limit_is_held_or_not(demand: Limit, holds: bool) -> None:
    assert [verdict.holds for verdict in check([ROW], {"area/thing": demand})] == [holds]


def test_limit_without_its_number_does_not_hold() -> None:
    (verdict,) = check([], {"area/thing": limit("<=", 1.0)})
    assert (verdict.holds, verdict.word) == (False, "NOT MEASURED")


def test_limits_file_is_valid_and_every_limit_names_its_source() -> None:
    assert all(entry.source for entry in read_limits().values())


def test_limit_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text('["a/b"]\nop = ">="\nvalue = 1\nsource = "s"\nvalu = 2\n', encoding="utf-8")
    with pytest.raises(msgspec.ValidationError, match="valu"):
        read_limits(path)


def test_result_survives_the_disk(tmp_path: Path) -> None:
    write_result(RESULT, tmp_path)
    assert read_results(tmp_path) == [RESULT]


def test_page_shows_number_interval_peer_and_origin() -> None:
    page = render([RESULT], {"area/thing": limit(">=", 20.0, Measured.RATIO)})
    assert "| `area/thing` (ratio) | >= 20 | 20 | holds | somebody |" in page
    assert "| `area/thing` | time of a thing | 0.25 s [0.2, 0.3], n = 7 | Peer 4: 5 s | 20 [19, 21] |" in page
    assert "- Made on 2026-11-30 by `python -m bench area_thing`." in page
    assert "- Machine: A CPU, 2 cores, 24 GiB, Linux 6.1.0; Python 3.11.7, numpy 2.4.6." in page


def test_committed_page_is_the_one_that_the_results_give() -> None:
    assert DOCS_FILE.read_text(encoding="utf-8") == render(read_results(), read_limits()), (
        "docs/BENCHMARKS.md is not what results and limits give: run `python -m bench --docs`"
    )


def test_modules_are_selected_by_the_start_of_their_names() -> None:
    known = ["engine_speed", "physics_simgrid", "physics_speed"]
    assert command.select([], known) == known
    assert command.select(["physics"], known) == ["physics_simgrid", "physics_speed"]
    with pytest.raises(SystemExit, match="no benchmark starts with 'phisics'; there are: engine_speed"):
        command.select(["phisics"], known)


def test_failing_module_is_shown_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_module("no_such_module", quick=True) is None
    assert "ModuleNotFoundError" in capsys.readouterr().err


def test_what_the_machine_lacks_is_told_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(**_: object) -> None:
        raise MissingPrerequisite("not root: use sudo")

    module = ModuleType("bench.needs_root")
    monkeypatch.setattr(module, "run", lacks, raising=False)
    monkeypatch.setitem(sys.modules, "bench.needs_root", module)
    assert command.run_module("needs_root", quick=True) is None
    assert capsys.readouterr().err == "  not measured: not root: use sudo\n"
