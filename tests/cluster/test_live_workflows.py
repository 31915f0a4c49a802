"""A recorded workflow as a real Argo workflow on real nodes, under the process of the scheduler, twice."""

from pathlib import Path

import pytest

from bench.live.trials import STOWPLAN, Bed, stowplan, with_history
from bench.live_workflows import short_name
from stowplan.simulate.files import read_text
from testbed.argo.converted import Scale, convert
from testbed.cluster import Cluster
from testbed.images import image_name

RECORDING = "nfcore/bacass-dirt02-001"  # eleven tasks
SHORT = Scale(factor=0.5, exponent=0.35, least_s=0.5, most_s=6.0, cores_per_core=0.06)


@pytest.fixture
def workflows(shared_data: Path) -> dict[str, dict[str, object]]:
    text = read_text(shared_data / "wfinstances" / f"{RECORDING}.json.gz")
    workflow = convert(text, short_name(RECORDING), SHORT, image_name("load"))
    return {"00": workflow}


@pytest.mark.timeout(400)  # two runs of half a minute each, on a machine that may be five times slower
def test_every_pod_is_bound_explained_and_remembered_and_the_second_run_is_foretold(
    cluster: Cluster, workflows: dict[str, dict[str, object]], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    config = {"history": {"url": url, "refit_s": 1.0}, "lease": {"enable": False}}
    bed = Bed(cluster)
    first, second = (
        with_history(bed.run(STOWPLAN, f"recorded-{run}", workflows, stowplan(cluster, config)), url)
        for run in ("first", "second")
    )
    for trial in (first, second):
        # That it succeeded and that the pods are the scheduler's, a trial has seen to.
        assert len(trial.pods) == 11
        assert {pod.node for pod in trial.pods} <= set(cluster.nodes)
        assert (trial.bound, trial.explained, trial.recorded) == (11, 11, 11)
    # Whatever else places pods on these nodes meanwhile, durations of one class are alike.
    assert len(second.foretold) == 11
    assert {each.source for each in second.foretold} <= {"item", "class"}
