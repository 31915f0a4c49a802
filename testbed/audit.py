"""What the API server itself writes down of bindings: who bound which pod where, and what it answered.

The objects tell only how it ended. That a pod was bound twice, or that a binding was tried again after it had
been carried out, stands nowhere but in the audit log.

A request is written down when it comes and when it is answered. An API server that is killed in between has
carried it out or not, and has not said where to: the first line comes before the request is read.
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
UNANSWERED = 0
RECEIVED = "RequestReceived"
POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
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
        node: Where to; empty where it was not answered.
        user: Who asked.
        code: The answer's; of a caller who was gone it tells nothing. `UNANSWERED`: there was none.
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
            self.code in {CREATED, GONE_CALLER, UNANSWERED} or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR
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
    """All that were asked for so far, in the order in which they were answered; then those that were not."""
    file = log(site)
    events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    received = {event["auditID"]: event for event in events if event["stage"] == RECEIVED}
    answered = [event for event in events if event["stage"] != RECEIVED]
    for event in answered:
        received.pop(event["auditID"], None)
    return [_binding(event) for event in (*answered, *received.values())]


def _binding(event: Json) -> Binding:
    wanted = event.get("requestObject") or {}
    reference = event["objectRef"]
    return Binding(
        pod=f"{reference['namespace']}/{reference['name']}",
        uid=(wanted.get("metadata") or {}).get("uid", ""),
        node=(wanted.get("target") or {}).get("name", ""),
        user=event["user"]["username"],
        code=event.get("responseStatus", {}).get("code", UNANSWERED),
    )


def bound_twice(made: Iterable[Binding]) -> dict[str, int]:
    """Pods that were bound more than once, by namespace, name and uid, and how often."""
    counts = Counter(f"{each.pod} {each.uid}" for each in made if each.code == CREATED)
    return {pod: count for pod, count in counts.items() if count > 1}
