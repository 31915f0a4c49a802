"""The test cluster: seconds until it is up and until it is wholly gone."""

from time import perf_counter

from bench.harness import Row, median_ci95
from testbed import cluster, sweep
from testbed.spec import GIB, ClusterSpec, FakeNodes, RealNode

SPEC = ClusterSpec(
    real_nodes=(RealNode(cpus=1.0, memory_bytes=4 * GIB), RealNode(cpus=0.5, memory_bytes=2 * GIB)),
    fake_nodes=(FakeNodes(count=100),),
)


def run(*, quick: bool) -> list[Row]:
    """Bring the cluster up and down again and again; the first time, which fills caches, does not count."""
    up_s: list[float] = []
    down_s: list[float] = []
    left: list[int] = []
    for repeat in range(2 if quick else 7):
        start_s = perf_counter()
        running = cluster.start(SPEC, owned=True)
        ready_s = perf_counter()
        running.down()
        gone_s = perf_counter()
        left.append(len(sweep.remains(running.site)))
        if repeat:
            up_s.append(ready_s - start_s)
            down_s.append(gone_s - ready_s)
    parts = "control plane, 2 real nodes, 100 fake nodes, images of pause, busybox and load; caches warm"
    return [
        Row.of(median_ci95(up_s), name="testbed/up", what=f"until all nodes are ready: {parts}", unit="s"),
        Row.of(median_ci95(down_s), name="testbed/down", what="until nothing of it is left", unit="s"),
        Row.exact(
            sum(left),
            name="testbed/remains",
            what="processes, mounts, namespaces, links, control groups and folders left over, all repeats",
            unit="things",
        ),
    ]
