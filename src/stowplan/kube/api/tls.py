"""The TLS context of a user: whom to trust, and the certificate to show."""

import os
import ssl
import tempfile

from stowplan.kube.api.access import Access
from stowplan.kube.api.errors import InvalidAccess

__all__ = ["tls_context"]


def tls_context(access: Access, certificate_pem: str | None, key_pem: str | None) -> ssl.SSLContext:
    """Make the context for requests of that access.

    Args:
        access: Names the authority to trust.
        certificate_pem: The user's certificate, or None.
        key_pem: Its private key; required with a certificate.

    Raises:
        InvalidAccess: A certificate or key cannot be used.
    """
    if access.authority_pem is not None and not access.authority_pem.strip():
        # The ssl module would take it for none, and trust the system's.
        raise InvalidAccess(f"the certificate authority of {access.origin} cannot be used: it is empty")
    try:
        context = ssl.create_default_context(cadata=access.authority_pem)
    except ssl.SSLError as error:
        raise InvalidAccess(
            f"the certificate authority of {access.origin} cannot be used: {error.reason or error}"
        ) from error
    # Python 3.13 asks for extensions that the authorities of many clusters lack, and that neither Go nor
    # older Pythons ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate_pem is not None:
        _show(context, certificate_pem, key_pem or "", access.origin)
    return context


def _show(context: ssl.SSLContext, certificate_pem: str, key_pem: str, origin: str) -> None:
    """Load a certificate and key: the ssl module takes them only from a file, which is gone at once."""
    handle, path = tempfile.mkstemp(prefix="stowplan-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{certificate_pem}\n{key_pem}")
        # An encrypted key is refused; without a password here OpenSSL would ask for one on the terminal.
        context.load_cert_chain(path, password="")
    except ssl.SSLError as error:
        raise InvalidAccess(
            f"the client certificate or key of {origin} cannot be used: {error.reason or 'not a pair'}"
        ) from error
    finally:
        os.unlink(path)  # noqa: PTH108 - beside mkstemp, which is os's too
