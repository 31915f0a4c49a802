"""The memory of the scheduler's process over hundreds of thousands of pods: a day of a busy cluster.

200,000 pods are created, bound by Stowplan, run to their end on fake nodes and are deleted, wave after wave
(`bench/live/churn.py`). How much the process holds is read between waves, when nothing is there; the slope is
that of a straight line through these readings. The history is kept meanwhile, as in service.

A run that is stopped goes on in a new process from what is in `out/`: each life of the process has a level of
its own, and a warm-up of its own that does not count.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.harness import Row
from bench.live.churn import MIB, Churn, Sample, sample, slope_bytes
from testbed import api, cluster, kwok
from testbed.argo import manifests
from testbed.cluster import Cluster
from testbed.spec import ClusterSpec, FakeNodes
from testbed.stowplan import NAME, Scheduler, grant

OUT: Final = Path("out") / "live_churn"
PODS: Final = 200_000
WAVE: Final = 2_000
WARM_UP: Final = 20_000
NODES: Final = 100
PER: Final = 10_000  # pods


@contextmanager
def served(history: Path, nodes: int) -> Generator[tuple[Cluster, Scheduler]]:
    """A cluster of fake nodes, Argo's definitions and Stowplan."""
    running = cluster.start(ClusterSpec(fake_nodes=(FakeNodes(count=nodes),), scheduler=None), owned=True)
    try:
        api.create_all(running.client, manifests.definitions())
        kwok.wait_until_schedulable(running.plane, running.client)
        grant(running.client, "binder")
        config = {
            "scheduler": {"mode": "binder"},
            "lease": {"enable": False},
            "history": {"url": f"sqlite:///{history.resolve()}"},
        }
        scheduler = Scheduler(running.plane, config)
        scheduler.start()
        scheduler.wait_ready()
        yield running, scheduler
    finally:
        running.down()


def measure(folder: Path, pods: int, wave: int, nodes: int) -> list[Sample]:
    """Let so many pods come and go, those of earlier lives included; returns all readings of the memory.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
        ComponentFailed: A pod was not bound, or the scheduler ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "samples.jsonl"
    decode = msgspec.json.Decoder(Sample).decode
    samples = [decode(line) for line in kept.read_bytes().splitlines()] if kept.exists() else []
    life = 1 + max((each.life for each in samples), default=-1)
    before = sum(
        max(each.pods for each in samples if each.life == earlier)
        for earlier in {each.life for each in samples}
    )
    if before >= pods:
        return samples
    with served(folder / "history.sqlite", nodes) as (running, scheduler), kept.open("ab") as file:
        api.make_namespace(running.client, "churn")
        churn = Churn(running, "churn", scheduler.scheduler_name, wave)
        done = 0
        while before + done < pods:
            done += churn.wave()
            samples.append(sample(running, NAME, life, done))
            file.write(msgspec.json.encode(samples[-1]) + b"\n")
            file.flush()
            memory = samples[-1].memory
            print(
                f"  {before + done:,} pods: resident {memory.resident / MIB:.1f} MiB, "
                f"proportional {memory.proportional / MIB:.1f} MiB",
                flush=True,
            )
    return samples


def rows_of(samples: list[Sample], warm_up: int) -> list[Row]:
    """Return the slopes, and what they rest on."""
    lives = {each.life for each in samples}
    last = samples[-1]
    pods = sum(max(each.pods for each in samples if each.life == life) for life in lives)
    own = [each for each in samples if each.life == last.life]
    took_s = own[-1].at_s - own[0].at_s
    return [
        *(
            Row.exact(
                slope_bytes(samples, field, warm_up) * PER / 1e6,
                name=f"churn/{field}",
                what=f"growth of the process's {field} memory, per {PER:,} pods",
                unit="MB",
                note=f"least squares over {len(samples)} readings of {len(lives)} lives, "
                f"the first {warm_up:,} pods of each left out",
            )
            for field in ("resident", "proportional")
        ),
        Row.exact(pods, name="churn/pods", what="pods created, bound, ended and deleted", unit="pods"),
        Row.exact(
            last.memory.resident / 1e6,
            name="churn/held",
            what="resident memory after the last of them",
            unit="MB",
        ),
        Row.exact(
            (own[-1].pods - own[0].pods) / took_s if took_s else 0.0,
            name="churn/rate",
            what="pods that came and went",
            unit="pods/s",
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Measure, or let a few pods come and go, kept nowhere.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
        ComponentFailed: A pod was not bound, or the scheduler ended.
    """
    if not quick:
        return rows_of(measure(OUT, PODS, WAVE, NODES), WARM_UP)
    with tempfile.TemporaryDirectory() as scratch:
        return rows_of(measure(Path(scratch), 1_500, 300, 10), 300)
