"""The scheduler under fire: killed, cut off, lied to, and led by another, while pods come and run.

* Kills: 100 times kill -9 in the middle of binding, 5,000 pods running beside. How long a new process needs
  until it knows them again.
* Faults: requests are refused (429, 500), carried out and not answered, cut, left without an answer; watches
  end with 410. Then nothing is wrong any more.
* Outages: the API server is killed and started again; then the way to it is cut, and pods and a node are
  deleted and all versions forgotten before it is open again, so that no watch can go on.
* Leaders: of two replicas the leader is killed, or ended in order.

After each, the API server's list and its audit log of bindings must show that no pod was lost, bound twice or
put where no room was (`bench/live/chaos.py`), and the scheduler must see what there is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.harness import Row, median_ci95
from bench.live import outages
from bench.live.chaos import Arena, Life, Verdict, audited_bed, kill_again_and_again, together
from testbed.cluster import Cluster
from testbed.faults import FaultyProxy
from testbed.spec import Json
from testbed.stowplan import PORT, Scheduler

SEED: Final = 5
FOR_EVER_S: Final = 1e6
ALONE: Final[Mapping[str, Json]] = {"scheduler": {"mode": "binder"}, "lease": {"enable": False}}
ELECTED: Final[Mapping[str, Json]] = {"scheduler": {"mode": "binder"}}
ENDED_S: Final = 40.0
KILLS_AT_ONCE: Final = (
    20  # before the pods are removed: the controller manager removes ended ones beyond 12,500
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of each.

    Attributes:
        nodes: Small fake nodes.
        beside: Pods that run all the time while the scheduler is killed.
        waiting: Pods that wait at least when it is started again.
        kills, fault_rounds, outages, leaders: How often.
        pods: Pods that are created in each of the other rounds.
    """

    nodes: int
    beside: int
    waiting: int
    kills: int
    fault_rounds: int
    outages: int
    leaders: int
    pods: int


FULL: Final = Size(
    nodes=1500, beside=5000, waiting=600, kills=100, fault_rounds=60, outages=6, leaders=6, pods=300
)
FEW: Final = Size(nodes=40, beside=60, waiting=60, kills=3, fault_rounds=4, outages=2, leaders=2, pods=40)


def run(*, quick: bool) -> list[Row]:
    """Do all of it, or a little of each.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
        ComponentFailed: A pod found no node in the end, or the scheduler ended by itself.
    """
    size = FEW if quick else FULL
    with audited_bed(size.nodes) as running:
        return [
            *_kills(running, size),
            *_faults(running, size),
            *_leaders(running, size),
        ]


def _kills(running: Cluster, size: Size) -> list[Row]:
    scheduler = Scheduler(running.plane, ALONE)
    beside = Arena(running, "beside", scheduler.scheduler_name)
    arena = Arena(running, "killed", scheduler.scheduler_name)
    scheduler.start()
    scheduler.wait_ready()
    beside.create(size.beside, duration_s=FOR_EVER_S)
    beside.wait_until_all_bound()
    scheduler.end()
    lives: list[Life] = []
    verdicts: list[Verdict] = []
    while len(lives) < size.kills:
        times = min(KILLS_AT_ONCE, size.kills - len(lives))
        lives += kill_again_and_again(arena, scheduler, times, waiting=size.waiting)
        with scheduler.running():
            arena.wait_until_all_bound()
            outages.wait_until_views_agree(scheduler, running)
        verdicts.append(arena.verdict())
        arena.remove()
        print(f"  killed {len(lives)} times, {verdicts[-1].faults} faults", flush=True)
    rows = _judged("kill", f"killed {size.kills} times in the middle of binding", together(verdicts))
    beside.verdict().check()
    beside.remove()
    what = f"from its start until it is ready, {size.beside:,} pods and {size.nodes:,} nodes there"
    return [
        *rows,
        Row.of(median_ci95([life.ready_s for life in lives]), name="chaos/rebuilt", what=what, unit="s"),
        Row.exact(
            max(life.ready_s for life in lives), name="chaos/rebuilt-worst", what="the longest", unit="s"
        ),
        Row.of(
            median_ci95([life.bound_s for life in lives]),
            name="chaos/first-binding",
            what="from its start until it has bound a pod",
            unit="s",
        ),
    ]


def _faults(running: Cluster, size: Size) -> list[Row]:
    with FaultyProxy(running.plane, seed=SEED) as proxy:
        scheduler = Scheduler(running.plane, ALONE, server=proxy.address)
        arena = Arena(running, "faults", scheduler.scheduler_name)
        scheduler.start()
        scheduler.wait_ready()
        after_faults_s = outages.under_faults(arena, proxy, scheduler, size.fault_rounds, pods=size.pods // 5)
        done = ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.done.items()))
        rows = _judged("faults", f"requests that failed: {done}", arena.verdict())
        arena.remove()
        restarts = [
            outages.recover_from_restart(
                arena, scheduler, down_s=arena.rng.uniform(0.5, 20.0), pods=size.pods
            )
            for _ in range(size.outages)
        ]
        rows += _judged("restarts", f"the API server killed {size.outages} times", arena.verdict())
        arena.remove()
        cuts = [
            outages.recover_from_cut(arena, proxy, scheduler, pods=size.pods, node=f"small-{number:05d}")
            for number in range(size.outages)
        ]
        rows += _judged("cuts", f"all that was watched forgotten {size.outages} times", arena.verdict())
        arena.remove()
        scheduler.end()
    return [
        *rows,
        Row.exact(
            after_faults_s, name="chaos/recovery-faults", what="a new pod has a node after faults", unit="s"
        ),
        *_recoveries("restart", "the API server was started again", restarts),
        *_recoveries("cut", "the way to the API server is open again, watches gone", cuts),
    ]


def _recoveries(name: str, since: str, took_s: Sequence[float]) -> list[Row]:
    return [
        Row.of(
            median_ci95(took_s),
            name=f"chaos/recovery-{name}",
            what=f"a new pod has a node, after {since}",
            unit="s",
        ),
        Row.exact(max(took_s), name=f"chaos/recovery-{name}-worst", what="the longest", unit="s"),
    ]


def _leaders(running: Cluster, size: Size) -> list[Row]:
    replicas = [
        Scheduler(running.plane, ELECTED, name=f"stowplan-{letter}", port=PORT + number)
        for number, letter in enumerate("ab")
    ]
    arena = Arena(running, "leaders", replicas[0].scheduler_name)
    for replica in replicas:
        replica.start()

    def killed(leader: Scheduler) -> None:
        leader.kill()

    def ended(leader: Scheduler) -> None:
        leader.end(ENDED_S)

    ways: list[tuple[str, str, Callable[[Scheduler], None]]] = [
        ("killed", "until another leads, the leader killed while it binds", killed),
        ("ended", "until another leads, from when the leader has ended in order", ended),
    ]
    rows: list[Row] = []
    for name, what, end in ways:
        took_s = [outages.change_leader(arena, replicas, end, pods=size.pods) for _ in range(size.leaders)]
        rows += [
            Row.of(median_ci95(took_s), name=f"chaos/leader-{name}", what=what, unit="s"),
            Row.exact(max(took_s), name=f"chaos/leader-{name}-worst", what="the longest", unit="s"),
        ]
    rows += _judged("leaders", f"the leader went {2 * size.leaders} times", arena.verdict())
    for replica in replicas:
        replica.end(ENDED_S)
    return rows


def _judged(name: str, what: str, verdict: Verdict) -> list[Row]:
    refused = ", ".join(f"{code} {count} times" for code, count in sorted(verdict.refused.items()))
    print(
        f"  {name}: {verdict.faults} faults, {verdict.pods:,} pods; refused: {refused or 'nothing'}",
        flush=True,
    )
    return [
        Row.exact(
            len(found),
            name=f"chaos/{name}-{kind}",
            what=f"{words}: {what}, {verdict.pods:,} pods",
            unit=unit,
            note=f"bindings that the API server refused: {refused}" if kind == "bound-twice" else "",
        )
        for kind, words, unit, found in (
            ("lost", "pods lost", "pods", verdict.lost),
            ("bound-twice", "pods bound twice", "pods", verdict.bound_twice),
            ("elsewhere", "pods on a node to which nobody bound them", "pods", verdict.elsewhere),
            ("overcommitted", "nodes with more than they have room for", "nodes", verdict.overcommitted),
        )
    ]
