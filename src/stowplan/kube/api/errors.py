"""What can go wrong between Stowplan and an API server.

    KubernetesError
    ├── InvalidAccess        the kubeconfig or the service account cannot be used (also an InvalidInput)
    ├── Unreachable          no answer came: refused, reset, timed out, or TLS failed
    ├── Unreadable           an answer came that is not what the API promises
    └── Refused              the API server answered with an error status
        ├── Unauthorized     401  it does not know who asks
        ├── Forbidden        403  a right is missing; verb and resource are in the message
        ├── NotFound         404
        ├── Conflict         409  the object changed or exists, or the pod is bound already
        ├── Expired          410  a resource version is too old: list again
        ├── Invalid          422  a field is wrong
        ├── TooManyRequests  429  with the pause that it asks for
        └── ServerFailed     5xx

Whether trying again can help is a property of the error, so that callers need no list of their own.
"""

from stowplan.errors import InvalidInput, StowplanError

__all__ = [
    "Conflict",
    "Expired",
    "Forbidden",
    "Invalid",
    "InvalidAccess",
    "KubernetesError",
    "NotFound",
    "Refused",
    "ServerFailed",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "Unreadable",
    "refused",
]


class KubernetesError(StowplanError):
    """Root of what goes wrong with an API server."""

    is_transient = False  # whether the same request may succeed a moment later


class InvalidAccess(KubernetesError, InvalidInput):
    """How to reach the cluster cannot be made out, or cannot be used."""


class Unreachable(KubernetesError):
    """No answer came. Whether the server did what was asked is not known."""

    is_transient = True


class Unreadable(KubernetesError):
    """The answer is not what the API promises."""


class Refused(KubernetesError):
    """The API server answered with an error status.

    Attributes:
        code: HTTP status.
        reason: The machine-readable reason of the API's Status object, such as `AlreadyExists`.
        retry_after_s: Pause in seconds that the server asks for, or None.
    """

    def __init__(
        self, message: str, *, code: int, reason: str = "", retry_after_s: float | None = None
    ) -> None:
        """Keep what was answered."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class Unauthorized(Refused):
    """The API server does not know who asks: a token or certificate is missing, wrong or expired."""


class Forbidden(Refused):
    """A right is missing."""


class NotFound(Refused):
    """There is no such object, or no such resource on this server."""


class Conflict(Refused):
    """The object changed meanwhile or exists, or the pod is bound already."""


class Expired(Refused):
    """The resource version is too old to go on from."""


class Invalid(Refused):
    """A field of the object is wrong; the message names it."""


class TooManyRequests(Refused):
    """The server is busy, or an eviction would break a disruption budget."""

    is_transient = True


class ServerFailed(Refused):
    """The server failed; an answer of another kind may come a moment later."""

    is_transient = True


_BY_CODE: dict[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def refused(what: str, code: int, reason: str, message: str, retry_after_s: float | None = None) -> Refused:
    """Make the error of an answer.

    Args:
        what: What was asked, such as `list pods`.
        code: HTTP status, 400 or more.
        reason: Of the Status object, if it was one.
        message: Of the Status object, or the body's beginning.
        retry_after_s: From the header Retry-After.
    """
    kind = _BY_CODE.get(code, ServerFailed if code >= 500 else Refused)
    mend = {
        401: "; check the token or the client certificate, and that it has not expired",
        403: "; grant the verb on the resource to this user (RBAC)",
    }.get(code, "")
    return kind(f"{what}: {message} ({code}{mend})", code=code, reason=reason, retry_after_s=retry_after_s)
