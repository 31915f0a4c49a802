"""Runs small random systems in SimGrid and prints when each activity finished; the peer of our solvers.

Run by the Python that Debian's python3-simgrid is made for, so it uses the standard library and SimGrid only.
Reads one JSON object per line from standard input and writes one JSON list of finish times (seconds) per
line:

    {"kind": "bmf", "cores": c, "capacity": [bytes/s …], "tasks": [[arrival_s, work_s, [bytes per resource …]]
    …]} {"kind": "maxmin", "capacity": [bytes/s per link], "flows": [[arrival_s, bytes, [link …]] …]}

bmf: one host with `cores` cores, tasks that compute and load shared buses at once (parallel tasks,
`host/solver:bmf`).
maxmin: flows over routes in model CM02 without protocol effects. Traffic of a host with itself is free in
SimGrid, so a bus is a link to a host of its own, and a flow has a pair of hosts and a route of its own.
One process per line: SimGrid allows one engine per process.
"""

import json
import os
import sys
from typing import Any

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

QUIET = ["peer", "--log=root.thres:critical", "--log=xbt_cfg.thres:critical"]
BMF = ["--cfg=host/model:ptask_L07", "--cfg=host/solver:bmf", "--cfg=bmf/precision:1e-12"]
MAXMIN = [
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/weight-S:0",
    "--cfg=network/crosstraffic:0",
]


def run_bmf(case: dict[str, Any]) -> list[float]:
    """Finish times of tasks that need a core and several buses at once."""
    engine = Engine([*QUIET, *BMF])
    zone = NetZone.create_full_zone("zone")
    host = zone.create_host("node", "1f")
    host.core_count = case["cores"]
    hosts = [host.seal()]
    for index, capacity in enumerate(case["capacity"]):
        end = zone.create_host(f"bus{index}", "1f").seal()
        link = zone.create_link(f"link{index}", f"{capacity!r}Bps").set_latency(0).seal()
        zone.add_route(host.netpoint, end.netpoint, None, None, [LinkInRoute(link)], True)
        hosts.append(end)
    zone.seal()
    finished = [0.0] * len(case["tasks"])

    def body(index: int) -> None:
        arrival, work, sent = case["tasks"][index]
        this_actor.sleep_until(arrival)
        size = len(hosts)
        traffic = [0.0] * (size * size)
        traffic[1:size] = sent
        this_actor.parallel_execute(hosts, [work] + [0.0] * (size - 1), traffic)
        finished[index] = engine.clock

    for index in range(len(case["tasks"])):
        Actor.create(f"task{index}", host, body, index)
    engine.run()
    return finished


def run_maxmin(case: dict[str, Any]) -> list[float]:
    """Finish times of flows that share links."""
    engine = Engine([*QUIET, *MAXMIN])
    zone = NetZone.create_full_zone("zone")
    links = [
        zone.create_link(f"link{index}", f"{capacity!r}Bps").set_latency(0).seal()
        for index, capacity in enumerate(case["capacity"])
    ]
    ends = []
    for index, (_, _, route) in enumerate(case["flows"]):
        pair = [zone.create_host(f"{side}{index}", "1f").seal() for side in "ab"]
        steps = [LinkInRoute(links[step]) for step in route]
        zone.add_route(pair[0].netpoint, pair[1].netpoint, None, None, steps, True)
        ends.append(pair)
    zone.seal()
    finished = [0.0] * len(case["flows"])

    def body(index: int) -> None:
        arrival, size, _ = case["flows"][index]
        this_actor.sleep_until(arrival)
        Comm.sendto(*ends[index], int(size))
        finished[index] = engine.clock

    for index in range(len(case["flows"])):
        Actor.create(f"flow{index}", ends[0][0], body, index)
    engine.run()
    return finished


def main() -> None:
    """Answer each line in a process of its own, in order."""
    runs = {"bmf": run_bmf, "maxmin": run_maxmin}
    for line in sys.stdin:
        case = json.loads(line)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(json.dumps(runs[case["kind"]](case)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            print("null", flush=True)


if __name__ == "__main__":
    main()
