"""Cases in which we once differed from kube-scheduler 1.37.2, made small by the differential test."""

from pathlib import Path

import msgspec
import pytest

from testbed.differential.kept import ours, read_case

CASES = sorted((Path(__file__).parent / "shrunk").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_we_say_what_kube_scheduler_says(path: Path) -> None:
    case = read_case(path)
    said = ours(case.objects, has_preemptions=any(one.preemption for one in case.pods.values()))
    assert {key: (one.refused, one.first) for key, one in said.items()} == {
        key: (one.refused, one.first) for key, one in case.pods.items()
    }
    for key, one in case.pods.items():
        assert set(one.best) <= set(said[key].best)  # it picks one of these
        if one.preemption is not None:
            mine = said[key].preemption
            assert mine is not None
            assert set(one.preemption.chosen) <= set(mine.chosen)  # the same
            assert msgspec.structs.replace(mine, chosen=one.preemption.chosen) == one.preemption
