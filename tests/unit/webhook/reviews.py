"""AdmissionReviews as the API server sends them, and its side of the answers."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from stowplan.serve.webhook.admission import Admission, Result
from stowplan.serve.webhook.review import answer_body, read_review

Json = dict[str, Any]

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def review(
    raw: object,
    *,
    operation: str = "CREATE",
    old: object = None,
    dry_run: bool = False,
    kind: str = "",
    namespace: str = "jobs",
    **fields: object,
) -> bytes:
    """The body of a request that asks about an object."""
    found: Json = raw if isinstance(raw, dict) else {}
    metadata = found.get("metadata")
    asked = kind or str(found.get("kind", ""))
    plural = f"{asked.lower()}s"
    version = {"group": "argoproj.io", "version": "v1alpha1"}
    request: Json = {
        "uid": UID,
        "kind": {**version, "kind": asked},
        "resource": {**version, "resource": plural},
        "requestKind": {**version, "kind": asked},
        "requestResource": {**version, "resource": plural},
        "name": metadata.get("name", "") if isinstance(metadata, dict) else "",
        "namespace": namespace,
        "operation": operation,
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": raw,
        "oldObject": old,
        "dryRun": dry_run,
        "options": {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        **fields,
    }
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(body).encode()


def response_of(body: bytes) -> Json:
    """The response in an answer, which must be what the API server takes."""
    answer = msgspec.json.decode(body)
    assert set(answer) == {"apiVersion", "kind", "response"}
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert response["uid"] == UID
    assert set(response) <= {"uid", "allowed", "patch", "patchType", "status", "warnings"}
    assert ("patch" in response) == ("patchType" in response)
    assert response.get("patchType", "JSONPatch") == "JSONPatch"
    assert ("status" in response) == (response["allowed"] is False)
    for warning in response.get("warnings", ()):
        assert len(warning) <= 120
        assert warning.isprintable()
    return response


def patch_of(response: Json) -> list[Json]:
    """The patch in a response, empty without one."""
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else []


def mutated(admission: Admission, raw: object, **fields: Any) -> tuple[Result, Json]:  # noqa: ANN401 (whatever `review` takes)
    """The result and the response to an object."""
    asked = read_review(review(raw, **fields))
    verdict = admission.mutate(asked)
    return verdict.result, response_of(answer_body(asked, verdict.answer))


def validated(admission: Admission, raw: object, **fields: Any) -> tuple[Result, Json]:  # noqa: ANN401 (the same)
    """The result and the response to an object."""
    asked = read_review(review(raw, **fields))
    verdict = admission.validate(asked)
    return verdict.result, response_of(answer_body(asked, verdict.answer))


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30.0):
        while not await look():  # noqa: ASYNC110 - nobody tells of what happens within the process that is tested
            await asyncio.sleep(0.005)
