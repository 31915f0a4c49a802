"""The feed beside a real cluster: in the end its state is what a list says, whatever became of watches."""

import asyncio
import dataclasses
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from stowplan.core.domain import BoundPod, ClusterState, PodBound, PodRemoved, validate_state
from stowplan.kube.api import resources
from stowplan.kube.api.access import Access, from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.reflection import ReflectorState, Settings
from stowplan.kube.api.resources import Resource
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.manifest import LoadedObjects, load_objects
from testbed.cluster import Cluster
from testbed.control_plane import API_PORT
from tests.unit.kube_api.proxy import ToxicProxy
from tests.unit.live.described import described

SETTLED_S = 30.0
NAMES = 30
FOLLOWED = tuple(each for each in vars(resources).values() if isinstance(each, Resource))

Json = dict[str, Any]


@pytest.fixture
def access(cluster: Cluster) -> Access:
    return from_kubeconfig([cluster.site.kubeconfig])


@asynccontextmanager
async def following(client: ApiClient) -> AsyncGenerator[ClusterFeed]:
    """A feed that is in step, for the duration of a block."""
    feed = ClusterFeed(client, ClusterState(), settings=Settings(first_pause_s=0.05, longest_pause_s=0.5))
    running = asyncio.create_task(feed.run())
    try:
        await until(lambda: feed.is_settled)
        yield feed
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(look: Callable[[], object], within_s: float = SETTLED_S) -> None:
    async with asyncio.timeout(within_s):
        while not look():  # noqa: ASYNC110 - a state tells nobody
            await asyncio.sleep(0.02)


async def listed(client: ApiClient, feed: ClusterFeed) -> LoadedObjects:
    """All objects of the kinds that the feed follows, read the other way."""
    kinds = [each for each in FOLLOWED if each.kind in feed.health]
    assert len(kinds) == len(feed.health)
    documents: list[Json] = []
    for resource in kinds:
        token = ""
        while True:
            page = await client.page(resource, continue_token=token)
            documents += [{**msgspec.json.decode(raw), "kind": resource.kind} for raw in page.items]
            token = page.continue_token
            if not token:
                break
    return load_objects(documents)


async def differs(client: ApiClient, feed: ClusterFeed) -> str:
    """Where the feed differs from a list; empty when it does not."""
    loaded = await listed(client, feed)
    held, wanted = described(feed.state), described(loaded.state)
    for part in wanted:
        for name in {*held[part], *wanted[part]}:
            if held[part].get(name) != wanted[part].get(name):
                return f"{part} {name}:\n{held[part].get(name)}\nis not\n{wanted[part].get(name)}"
    waiting = {pod.key: (pod.shape, pod.uid) for pod in feed.pods.values() if pod.is_waiting}
    pending = {pod.key: (pod.shape, pod.uid) for pod in loaded.pending}
    return "" if waiting == pending else f"waiting {waiting.keys()} is not {pending.keys()}"


async def agree(client: ApiClient, feed: ClusterFeed) -> None:
    """Wait until the feed is what a list says; nodes report and pods end meanwhile, so it may take a few."""
    difference = "nothing was compared"
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLED_S):
            while difference:
                await asyncio.sleep(0.1)
                difference = await differs(client, feed)
    assert not difference, difference
    validate_state(feed.state)
    assert not [pod for pod in feed.pods.values() if feed.is_assumed(pod)]


class Churn:
    """Creates, binds and deletes pods and Services at random; what is refused is left as it is."""

    def __init__(self, client: ApiClient, feed: ClusterFeed, namespace: str, seed: int) -> None:
        self._client = client
        self._feed = feed
        self._namespace = namespace
        self._random = random.Random(seed)  # noqa: S311 - draws changes
        self._nodes = [name for name, row in feed.state.rows() if "kwok" in str(feed.state.node(row).labels)]
        self.bound = 0  # of those that were assumed before

    async def run(self, changes: int) -> None:
        for _ in range(changes):
            with suppress(KubernetesError):
                await self._change(f"p{self._random.randrange(NAMES)}")

    async def _change(self, name: str) -> None:
        client, where = self._client, self._namespace
        match self._random.randrange(8):
            case 0 | 1 | 2:
                await client.create(resources.PODS, self._pod(name), where)
            case 3 | 4:
                await self._bind(name)
            case 5:
                await client.delete(resources.PODS, name, where, grace_s=self._random.choice([0, 1]))
            case 6:
                spec = {"selector": {"app": self._random.choice("xy")}, "ports": [{"port": 80}]}
                await client.create(
                    resources.SERVICES, {"metadata": {"name": f"s-{name}"}, "spec": spec}, where
                )
            case _:
                await client.delete(resources.SERVICES, f"s-{name}", where)

    def _pod(self, name: str) -> Json:
        requests = {"cpu": f"{self._random.randrange(1, 5)}00m"}
        spec = {
            "schedulerName": "nobody",
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": "main", "image": "nowhere/nothing:1", "resources": {"requests": requests}}
            ],
        }
        return {"metadata": {"name": name, "labels": {"app": self._random.choice("xy")}}, "spec": spec}

    async def _bind(self, name: str) -> None:
        """Bind a pod as our scheduler would: assumed first, sometimes on another node than it gets."""
        pod = self._feed.pods.get(f"{self._namespace}/{name}")
        if pod is None or not pod.is_waiting or self._feed.is_assumed(pod):
            return
        node, believed = self._random.choice(self._nodes), self._random.choice(self._nodes)
        believed = self._random.choice([node, believed])
        self._feed.state.apply(PodBound(BoundPod(pod.key, pod.shape), believed))
        self._feed.assume(pod, believed)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": name, "uid": pod.uid}, "target": target}
        try:
            await self._client.post(resources.PODS, name, "binding", body, self._namespace)
            self.bound += 1
        except KubernetesError:
            if self._feed.is_assumed(pod):
                self._feed.state.apply(PodRemoved(pod.key))  # as Engine.forget does
                self._feed.drop(pod)


def test_after_churn_with_cut_watches_the_state_is_what_a_list_says(
    cluster: Cluster, access: Access, namespace: str
) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(cluster.site.hub_address, API_PORT) as proxy,
            ApiClient(access) as direct,
            ApiClient(dataclasses.replace(access, server=f"https://{proxy.address}")) as client,
            following(client) as feed,
        ):
            await agree(direct, feed)
            churn = Churn(direct, feed, namespace, seed=1)
            for number in range(5):
                changing = asyncio.create_task(churn.run(50))
                await asyncio.sleep(0.3)
                proxy.cut_after_bytes = 30_000 if number % 2 else None  # a list is cut in its middle, too
                proxy.reset_all()
                await changing
                proxy.cut_after_bytes = None
                await until(lambda: feed.health["Pod"].state is ReflectorState.WATCHING)
            await agree(direct, feed)
            assert churn.bound > 5
            failures = sum(sum(health.failures.values()) for health in feed.health.values())
            assert failures > len(feed.health)

    asyncio.run(story())


def test_a_feed_that_was_stopped_goes_on_where_it_was(access: Access, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(access) as client:
            async with following(client) as feed:
                churn = Churn(client, feed, namespace, seed=2)
                await churn.run(60)
                await agree(client, feed)
            await churn.run(60)  # nobody listens
            running = asyncio.create_task(feed.run())
            await agree(client, feed)
            states = {health.state for health in feed.health.values()}
            assert states == {ReflectorState.WATCHING}
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(story())
