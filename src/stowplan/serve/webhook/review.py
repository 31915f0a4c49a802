"""AdmissionReview v1: the envelope in which the API server asks and is answered; the object in it stays raw.

Source: kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers (request and
response), k8s.io/api/admission/v1 types.go.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stowplan.errors import InvalidInput
from stowplan.kube.argo.objects import Json

__all__ = ["AdmissionRequest", "Answer", "NotReadable", "Refusal", "answer_body", "object_of", "read_review"]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
UNPROCESSABLE: Final = 422
_NOTHING: Final = msgspec.Raw(b"null")


class NotReadable(InvalidInput):
    """What the API server sent is no AdmissionReview, or its object cannot be read."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What an object is."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One question. `object` and `old_object` are JSON; `null` where the operation has none."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


_REVIEWS: Final = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object is not admitted: in one message, and cause by cause as field and words."""

    message: str
    causes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered: admitted, with a patch and warnings, unless there is a refusal."""

    patch: Sequence[Mapping[str, object]] = ()
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None


def read_review(body: bytes) -> AdmissionRequest:
    """Return the question in a request's body.

    Raises:
        NotReadable: it is no AdmissionReview of version 1 with a request.
    """
    try:
        review = _REVIEWS.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotReadable(f"the request is no {KIND}: {_words(error)}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise NotReadable(
            f"the request is a {review.kind!r} of {review.api_version!r}; send a {KIND} of {API_VERSION} "
            "(admissionReviewVersions: [v1])"
        )
    if review.request is None or not review.request.uid:
        raise NotReadable(f"the {KIND} has no request with a uid")
    return review.request


def object_of(raw: msgspec.Raw) -> Json | None:
    """Return an object of a question as a parser has it; None where the operation has none.

    Raises:
        NotReadable: it is no mapping, or is nested deeper than a parser goes.
    """
    try:
        found: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotReadable(f"the object cannot be read: {_words(error)}") from None
    if found is None:
        return None
    if not isinstance(found, dict):
        raise NotReadable(f"the object is a {type(found).__name__}; it must be a mapping")
    return found  # pyright: ignore[reportUnknownVariableType] - keys of JSON are text


def answer_body(request: AdmissionRequest, answer: Answer) -> bytes:
    """Return the AdmissionReview that answers a question."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": answer.refusal is None}
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.refusal is not None:
        response["status"] = _status(request, answer.refusal)
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(request: AdmissionRequest, refusal: Refusal) -> dict[str, Any]:
    causes = [
        {"reason": "FieldValueInvalid", "field": field, "message": words} for field, words in refusal.causes
    ]
    return {
        "status": "Failure",
        "code": UNPROCESSABLE,
        "reason": "Invalid",
        "message": refusal.message,
        "details": {
            "name": request.name,
            "group": request.kind.group,
            "kind": request.kind.kind,
            "causes": causes,
        },
    }


def _words(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)
