"""Questions to the cluster's Prometheus, from this machine, by its HTTP interface (version 1)."""

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, cast

from testbed.errors import BedError
from testbed.monitoring.configuration import PORT
from testbed.site import Site

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Sample:
    """One element of the answer to an instant query.

    Attributes:
        labels: Its labels, with the metric's name as `__name__` where the query left it.
        value: Its value.
        at_s: When that was, in seconds since the epoch.
    """

    labels: dict[str, str]
    value: float
    at_s: float


@dataclass(frozen=True)
class Target:
    """One program that is scraped.

    Attributes:
        job: The kind of program.
        node: The real node that it tells of, or nothing.
        health: `up`, `down`, or `unknown` before the first scrape.
        error: Why it is down.
    """

    job: str
    node: str
    health: str
    error: str


def query(site: Site, promql: str) -> list[Sample]:
    """Ask Prometheus what a query gives now; a scalar is one sample without labels.

    Raises:
        BedError: Prometheus refused the query, or does not run.
        ValueError: The query gives a range or a text, which has no value now.
    """
    data = _get(site, "query?" + urllib.parse.urlencode({"query": promql}))
    kind, result = data["resultType"], data["result"]
    if kind == "scalar":
        return [Sample({}, float(result[1]), float(result[0]))]
    if kind != "vector":
        raise ValueError(f"{promql!r} gives a {kind}: ask for an instant vector or a scalar")
    return [
        Sample(element["metric"], float(element["value"][1]), float(element["value"][0]))
        for element in result
    ]


def targets(site: Site) -> list[Target]:
    """Every program that Prometheus scrapes, and how the last scrape went.

    Raises:
        BedError: Prometheus does not run.
    """
    return [
        Target(
            job=target["labels"]["job"],
            node=target["labels"].get("node", ""),
            health=target["health"],
            error=target["lastError"],
        )
        for target in _get(site, "targets?state=active")["activeTargets"]
    ]


def is_ready(site: Site) -> bool:
    """Whether Prometheus answers queries."""
    try:
        return bool(_get(site, "query?query=1"))
    except BedError:
        return False


def _get(site: Site, path: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{site.hub_address}:{PORT}/api/v1/{path}", timeout=TIMEOUT_S) as answer:
            return cast("dict[str, Any]", json.load(answer)["data"])
    except urllib.error.HTTPError as refused:
        with refused:
            said = refused.read().decode(errors="replace")
        raise BedError(f"Prometheus refused {path}: {said[:400]}") from refused
    except OSError as failure:
        raise BedError(f"Prometheus of cluster {site.name} does not answer: {failure}") from failure
