"""What an operator adds to kube-scheduler's configuration so that it asks the extender.

* `ignorable`: when the extender is gone, kube-scheduler goes on as if there were none.
* `httpTimeout` is short. kube-scheduler handles one pod at a time and tries anew for each, so an extender
  that hangs costs every pod that long per verb; one that is gone costs nothing, for its connections are
  refused. So few verbs are named: Filter and preemption only where a rule table refuses nodes.
* `nodeCacheCapable`: names of nodes are sent instead of whole nodes.
* `weight`: kube-scheduler adds 10 × weight points per level. Its own plugins give 0–100 each, times 1
  (resources, balance, images), 2 (affinities, spreading) or 3 (taints). With the weight of 10 one level
  counts as much as the whole difference between an idle and a full node, and a preference that somebody wrote
  into the pod outweighs one or two levels.

Source: KubeSchedulerConfiguration v1, `Extender`; `pkg/scheduler/extender.go` (1.37).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from stowplan.errors import InvalidInput

__all__ = ["DEFAULT_TIMEOUT_S", "DEFAULT_WEIGHT", "ClientTls", "extender_configuration", "extender_entry"]

DEFAULT_WEIGHT = 10
DEFAULT_TIMEOUT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """How kube-scheduler checks the extender, and shows who it is; paths are those on its machine.

    `server_name` is the name in the extender's certificate where it is not that of the URL.
    """

    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""


def extender_entry(
    url: str,
    *,
    has_rules: bool = False,
    weight: int = DEFAULT_WEIGHT,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    tls: ClientTls | None = None,
    node_cache_capable: bool = True,
) -> dict[str, object]:
    """Return the entry in `extenders` as plain values.

    Args:
        url: where the extender listens, without a verb.
        has_rules: whether the extender has a rule table, so that it must be asked to filter too.
        weight: points per level, in tens.
        timeout_s: how long kube-scheduler waits for an answer, in seconds.
        tls: needed with https.
        node_cache_capable: False has kube-scheduler send whole nodes, which is slow; for extenders behind
            something that needs them.

    Raises:
        InvalidInput: the URL, the weight or the timeout cannot be used, or https lacks the authority.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"the extender's URL is {url!r}; write http://HOST:PORT or https://HOST:PORT")
    if weight < 1:
        raise InvalidInput(f"the extender's weight is {weight}; kube-scheduler takes whole numbers from 1")
    if not (math.isfinite(timeout_s) and timeout_s >= 0.001):
        raise InvalidInput(f"the extender's timeout is {timeout_s} s; write at least a millisecond")
    if (parts.scheme == "https") != (tls is not None):
        wrong = "https needs the authority" if tls is None else "a TLS configuration needs https"
        raise InvalidInput(
            f"the extender's URL is {url!r}: {wrong}; without one kube-scheduler would trust whoever answers"
        )
    if tls is not None and (tls.certificate is None) != (tls.key is None):
        raise InvalidInput("the extender's client certificate and key belong together; name both or neither")
    entry: dict[str, object] = {
        "urlPrefix": url.rstrip("/"),
        "prioritizeVerb": "prioritize",
        "weight": weight,
    }
    if has_rules:
        entry |= {"filterVerb": "filter", "preemptVerb": "preempt"}
    entry |= {
        "httpTimeout": f"{round(timeout_s * 1000)}ms",
        "nodeCacheCapable": node_cache_capable,
        "ignorable": True,
    }
    if tls is not None:
        files = {"caFile": tls.authority, "certFile": tls.certificate, "keyFile": tls.key}
        named = {name: str(path) for name, path in files.items() if path is not None}
        if tls.server_name:
            named["serverName"] = tls.server_name
        entry |= {"enableHTTPS": True, "tlsConfig": named}
    return entry


def extender_configuration(
    url: str,
    *,
    has_rules: bool = False,
    weight: int = DEFAULT_WEIGHT,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    tls: ClientTls | None = None,
) -> str:
    """Return a KubeSchedulerConfiguration with the extender, as YAML; arguments as for `extender_entry`.

    Raises:
        InvalidInput: as `extender_entry`.
    """
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender_entry(url, has_rules=has_rules, weight=weight, timeout_s=timeout_s, tls=tls)],
    }
    return str(yaml.safe_dump(document, sort_keys=False))  # pyright: ignore[reportUnknownMemberType]  (its stub)
