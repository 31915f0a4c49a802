"""The kept constants are what the data say, and the laws predict what they were not fitted on."""

from pathlib import Path

import numpy as np
import pytest

from bench import physics_fits
from stowplan.core.physics import fitted
from stowplan.core.physics.fits import rounded


@pytest.fixture(autouse=True)
def _data(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physics_fits, "DATA", shared_data)


def test_the_kept_constants_are_fitted_on_these_data() -> None:
    found = physics_fits.constants()
    assert found["GPU_SHARING_KNOTS"] == pytest.approx(fitted.GPU_SHARING_KNOTS.tolist(), abs=1e-3)
    assert found["GPU_SHARING_SPEEDS"] == pytest.approx(fitted.GPU_SHARING_SPEEDS.tolist(), abs=1e-3)
    drifts = found["DRIFTS"]
    assert isinstance(drifts, dict)
    for name, model in fitted.DRIFTS.items():
        assert drifts[name] == pytest.approx(rounded(model), rel=1e-3)
    for job, model in fitted.STEP_TIMES.items():
        times = list(physics_fits.placement_law(job).times)
        again = physics_fits.fit_job(times)
        # Parameters may trade against each other; what they predict may not differ.
        gpus, nodes, batch, _ = physics_fits.arrays(times)
        np.testing.assert_allclose(
            model.step_time_s(gpus, nodes, batch), again.step_time_s(gpus, nodes, batch), rtol=0.01
        )


@pytest.mark.parametrize("job", physics_fits.JOBS)
def test_placements_not_fitted_on_are_predicted(job: str) -> None:
    (row,) = physics_fits.sia_rows((job,))
    assert row.median < 9.0
    blind = float(row.note.split("blind to nodes ")[1].split(" %")[0])
    deaf = float(row.note.split("without communication ")[1].split(" %")[0])
    assert row.median < blind < deaf


def test_gpu_pairs_and_machines_are_predicted_better_than_by_one_number() -> None:
    lucid, lotaru = physics_fits.lucid_row(), physics_fits.lotaru_row()
    assert lucid.median < float(lucid.note.split("alone errs ")[1].split(" %")[0])
    assert lotaru.median < 0.6 * float(lotaru.note.split("per machine ")[1].split(" %")[0])
