"""Steps of training jobs as Sia measured them, against the ring law at the speeds of the benchmark.

One speed inside a node and one between nodes, both set on BERT, have to do for four models, all batch sizes
and two machines: the four GPUs of `quad` and the eight of each `rtx` node. What a step computes is the
measured step of one GPU with the same batch, so that only the reduction is predicted.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.training.scenario import MODELS, cluster
from stowplan.core.physics.fitted import STEP_TIMES
from stowplan.core.physics.network import overlapped_time_s, ring_time_s
from stowplan.simulate.laws import PlacementLaw, load_law


def errors(folder: Path, model: str, machine: str, *, across: bool) -> Iterator[tuple[float, float]]:
    """Relative error of each measured step: by the law, and if reductions cost nothing."""
    law = load_law(folder / "sia" / f"{model}-placements-{machine}.csv.gz")
    assert isinstance(law, PlacementLaw)
    alone_s = {time.local_batch: time.step_s for time in law.times if time.gpus_on == (1,)}
    fabric, size = cluster().fabric, MODELS[model][1]
    link = fabric.same_rack if across else fabric.same_node
    for time in law.times:
        if time.gpus < 2 or (time.nodes > 1) != across or time.local_batch not in alone_s:
            continue
        compute_s = alone_s[time.local_batch]
        reduce_s = ring_time_s(size, time.gpus, link.bytes_per_s, link.latency_s)
        step_s = overlapped_time_s(compute_s, reduce_s, STEP_TIMES[model].gamma)
        yield abs(step_s / time.step_s - 1.0), abs(compute_s / time.step_s - 1.0)


def means(pairs: Iterator[tuple[float, float]]) -> tuple[float, float]:
    found: NDArray[np.float64] = np.array(list(pairs))
    assert len(found) >= 15
    return float(found[:, 0].mean()), float(found[:, 1].mean())


@pytest.mark.parametrize("machine", ["quad", "rtx"])
@pytest.mark.parametrize("model", MODELS)
def test_steps_inside_a_node_are_foretold_within_a_tenth(shared_data: Path, model: str, machine: str) -> None:
    by_law, without = means(errors(shared_data, model, machine, across=False))
    assert by_law < 0.10
    assert by_law < without


@pytest.mark.parametrize("model", MODELS)
def test_steps_between_nodes_are_foretold_within_a_fifth(shared_data: Path, model: str) -> None:
    by_law, without = means(errors(shared_data, model, "rtx", across=True))
    assert by_law < 0.20
    assert by_law < without
