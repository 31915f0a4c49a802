"""Admission webhook: how long the API server waits for the plan of a workflow, and for its check.

Requests go one after the other over one https connection on loopback, as the API server keeps one; each is
the AdmissionReview of a workflow whose tasks wait for ten others each. Server and client share a process,
whose processor time is counted too: unlike the clock, it does not grow with what else the machine does.
"""

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import perf_counter, process_time

import aiohttp
import structlog

from bench.argo_reader import large_workflow
from bench.harness import Row, median_ci95
from stowplan.kube.plan import PlanOptions
from stowplan.serve.http import listening
from stowplan.serve.tls import ServingCertificate
from stowplan.serve.webhook.admission import Admission
from stowplan.serve.webhook.application import MUTATE_PATH, VALIDATE_PATH, AdmissionApplication
from stowplan.serve.webhook.metrics import WebhookMetrics
from stowplan.serve.webhook.settings import WebhookConfig
from testbed.certificates import Authority, KeyPair

PATHS = {"mutate": MUTATE_PATH, "validate": VALIDATE_PATH}
MUST = {"mutate": "patch", "validate": "allowed"}


@dataclass(frozen=True)
class Load:
    """What is asked: workflows of so many tasks, in batches of so many requests."""

    tasks: int
    batches: int
    requests: int


LOADS = (Load(200, 9, 100), Load(5000, 9, 1))


def _review(tasks: int) -> bytes:
    kind = {"group": "argoproj.io", "version": "v1alpha1", "kind": "Workflow"}
    request = {
        "uid": "bench",
        "kind": kind,
        "operation": "CREATE",
        "namespace": "bench",
        "object": large_workflow("depends", tasks),
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


@asynccontextmanager
async def _served(folder: Path) -> AsyncGenerator[tuple[str, ssl.SSLContext]]:
    """The webhook by https, and whom to trust for it."""
    authority = Authority(folder)
    pair: KeyPair = authority.issue("webhook", "webhook", addresses=["127.0.0.1"])
    certificate = ServingCertificate(pair.certificate, pair.key, reload_s=10.0, on_change=lambda _: None)
    config = WebhookConfig(deadline_s=60.0)
    served = AdmissionApplication(Admission(PlanOptions()), WebhookMetrics(), config)
    try:
        async with listening(served.application(), "127.0.0.1", 0, certificate) as port:
            trust = ssl.create_default_context(cafile=authority.pair.certificate)
            yield f"https://127.0.0.1:{port}", trust
    finally:
        served.close()


@dataclass(frozen=True)
class Taken:
    """Seconds of one request: until its answer was whole, and of the processor."""

    wall_s: float
    cpu_s: float


async def _batch(
    session: aiohttp.ClientSession, path: str, body: bytes, must: str, count: int
) -> list[Taken]:
    """Ask so often, and return what each request took."""
    taken: list[Taken] = []
    for _ in range(count):
        begun_s, begun_cpu_s = perf_counter(), process_time()
        async with session.post(path, data=body) as answer:
            said = await answer.read()
        taken.append(Taken(perf_counter() - begun_s, process_time() - begun_cpu_s))
        response = json.loads(said)["response"]
        if not response["allowed"] or must not in response or "warnings" in response:
            raise RuntimeError(f"{path} answered {said[:300]!r}")
    return taken


def _p99(batch: list[Taken]) -> float:
    return sorted(taken.wall_s for taken in batch)[ceil(0.99 * len(batch)) - 1]


async def _measure(*, quick: bool) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        async with _served(Path(folder)) as (address, trust):
            connector = aiohttp.TCPConnector(ssl=trust, limit=1)
            async with aiohttp.ClientSession(address, connector=connector) as session:
                for load in LOADS:
                    body = _review(load.tasks)
                    for name, path in PATHS.items():
                        batches, requests = (
                            (2, min(5, load.requests)) if quick else (load.batches, load.requests)
                        )
                        await _batch(session, path, body, MUST[name], min(5, requests))  # fills caches
                        found = [
                            await _batch(session, path, body, MUST[name], requests) for _ in range(batches)
                        ]
                        rows += _rows(load, name, found)
    return rows


def _rows(load: Load, name: str, found: list[list[Taken]]) -> list[Row]:
    row = f"live-webhook/{name}-{load.tasks}"
    what = f"a workflow of {load.tasks:,} tasks, {name}: from sending the request to having the whole answer"
    every = [taken for batch in found for taken in batch]
    rows = [
        Row.of(median_ci95([taken.wall_s for taken in every]), name=row, what=what, unit="s"),
        Row.of(
            median_ci95([taken.cpu_s for taken in every]),
            name=f"{row}-cpu",
            what=f"the same, seconds of a processor for {name}, client included",
            unit="s",
        ),
    ]
    if load.requests > 1:
        note = f"the 99th percentile of {load.requests} requests, over {len(found)} batches"
        p99 = median_ci95([_p99(batch) for batch in found])
        rows.append(Row.of(p99, name=f"{row}-p99", what=what, unit="s", note=note))
    return rows


def run(*, quick: bool) -> list[Row]:
    """Measure both paths with workflows of two sizes."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(40)
    )  # a line per request is not asked for
    try:
        return asyncio.run(_measure(quick=quick))
    finally:
        structlog.reset_defaults()
