"""What the API server itself writes down of bindings: who bound which pod where, and what it answered.

The objects tell only how it ended. That a pod was bound twice, or that a binding was tried again after it had
been carried out, stands nowhere but in the audit log.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from testbed.site import Site
from testbed.spec import Json

CREATED = HTTPStatus.CREATED
GONE_CALLER = 499
POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Binding:
    """A request to bind a pod, and the API server's answer.

    Attributes:
        pod: Namespace and name.
        uid: The pod that was meant, and no other of its name; empty where the request did not say.
        node: Where to.
        user: Who asked.
        code: The answer's; of a caller who was gone it tells nothing.
    """

    pod: str
    uid: str
    node: str
    user: str
    code: int

    @property
    def may_be_done(self) -> bool:
        """Whether it was carried out, or can have been: the answer was not that it is refused."""
        return (
            self.code == CREATED or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR or self.code == GONE_CALLER
        )


def flags(site: Site) -> list[str]:
    """Flags of the API server that make it write bindings down; the policy is written now."""
    policy = site.folder / "audit.json"
    policy.write_text(json.dumps(POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log(site)}", "--audit-log-mode=blocking"]


def log(site: Site) -> Path:
    """Where they are written."""
    return site.folder / "audit.log"


def bindings(site: Site) -> list[Binding]:
    """All that were asked for so far, in the order in which they were answered."""
    file = log(site)
    lines = file.read_text().splitlines() if file.exists() else []
    return [_binding(json.loads(line)) for line in lines]


def _binding(event: Json) -> Binding:
    wanted = event.get("requestObject") or {}
    reference = event["objectRef"]
    return Binding(
        pod=f"{reference['namespace']}/{reference['name']}",
        uid=(wanted.get("metadata") or {}).get("uid", ""),
        node=(wanted.get("target") or {}).get("name", ""),
        user=event["user"]["username"],
        code=event["responseStatus"]["code"],
    )


def bound_twice(made: Iterable[Binding]) -> dict[str, int]:
    """Pods that were bound more than once, by namespace, name and uid, and how often."""
    counts = Counter(f"{each.pod} {each.uid}" for each in made if each.code == CREATED)
    return {pod: count for pod, count in counts.items() if count > 1}
