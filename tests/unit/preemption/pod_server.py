"""An API server that takes patches and deletions of pods and fails as it is told; a cluster beside it."""

import dataclasses
from collections import defaultdict
from typing import Any, Self

from aiohttp import web

from stowplan.core.domain import BoundPod, DisruptionBudget, NominationRemoved, PodNominated
from stowplan.kube.api.access import Access
from stowplan.kube.live.pod import LivePod
from tests.scheduler_cases import TableFeed
from tests.unit.kube_api.server import Fault

Json = dict[str, Any]


class PodServer:
    """The server; an asynchronous context manager.

    Attributes:
        faults: By method and pod, what goes wrong with the next such requests, in order; then nothing does.
        sent: Method, pod and body of each request.
    """

    def __init__(self) -> None:
        self.faults: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)
        self.sent: list[tuple[str, str, Json]] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/v1/namespaces/default/pods/{name}{rest:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.access = Access(server=f"http://127.0.0.1:{self._runner.addresses[0][1]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.sent.append((request.method, name, await request.json()))
        faults = self.faults[request.method, name]
        if faults:
            answer = await faults.pop(0)(request)
            if answer is not None:
                return answer
        return web.json_response({})

    def told(self, name: str) -> list[str]:
        """What was asked about a pod, in short."""
        return [_short(method, body) for method, about, body in self.sent if about == name]


def _short(method: str, body: Json) -> str:
    if method == "DELETE":
        return f"delete {body['preconditions']['uid']}"
    status = body["status"]
    if "nominatedNodeName" in status:
        return f"nominate {status['nominatedNodeName'] or 'nowhere'}"
    (condition,) = status["conditions"]
    return "unmark" if "$patch" in condition else f"mark {condition['reason']} {condition['status']}"


class TableCluster(TableFeed):
    """A hand-made cluster with budgets, whose nominations are known at once."""

    def __init__(self) -> None:
        super().__init__()
        self.budgets: dict[str, DisruptionBudget] = {}

    def nominate(self, pod: LivePod, node_name: str) -> None:
        now = self.pods[pod.key]
        status = dataclasses.replace(now.status, nominated_node=node_name)
        shape = dataclasses.replace(now.shape, own_nomination=now.key if node_name else "")
        self.pods[pod.key] = dataclasses.replace(now, status=status, shape=shape)
        if node_name:
            self.state.apply(PodNominated(BoundPod(now.key, shape, uid=now.uid), node_name))
        elif now.key in self.state.nominations:
            self.state.apply(NominationRemoved(now.key))
