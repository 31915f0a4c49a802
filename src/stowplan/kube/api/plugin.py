"""Credential plugins: a program of the cluster's owner that hands out a token or a certificate.

Source: kubernetes.io/docs/reference/access-authn-authz/authentication (client-go credential plugins), API
`client.authentication.k8s.io`.
"""

import asyncio
import datetime as dt
import os
import signal
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from stowplan.kube.api.access import ExecPlugin
from stowplan.kube.api.errors import InvalidAccess

__all__ = ["HandedOut", "ask"]

PLUGIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class HandedOut:
    """What a plugin answered: a token, a certificate with its key, or both.

    Attributes:
        token: A bearer token.
        certificate_pem: The user's certificate.
        key_pem: Its private key.
        expires_s: Wall time in seconds since the epoch; infinite where it said nothing.
    """

    token: str | None
    certificate_pem: str | None
    key_pem: str | None
    expires_s: float


async def ask(plugin: ExecPlugin, *, timeout_s: float = PLUGIN_TIMEOUT_S) -> HandedOut:
    """Run a plugin and read its answer. When this is cancelled, the plugin is ended.

    Args:
        plugin: The program.
        timeout_s: How long it may take, in seconds.

    Raises:
        InvalidAccess: It cannot be run, failed, gave no answer in time, or one that cannot be used.
    """
    asked = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False} | ({"cluster": plugin.cluster} if plugin.cluster else {}),
    }
    information = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}
    name = plugin.command[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *plugin.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | dict(plugin.environment) | information,
            start_new_session=True,  # a group of its own: what it starts is ended with it
        )
    except OSError as error:
        hint = f" ({' '.join(plugin.install_hint.split())})" if plugin.install_hint else ""
        raise InvalidAccess(f"the credential plugin {name} cannot be run: {error.strerror}{hint}") from error
    try:
        output, errors = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise InvalidAccess(f"the credential plugin {name} gave no answer in {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        said = " ".join(errors.decode(errors="replace").split())[-300:]
        raise InvalidAccess(
            f"the credential plugin {name} failed with exit code {process.returncode}: {said}"
        )
    return _read(output, plugin)


def _read(output: bytes, plugin: ExecPlugin) -> HandedOut:
    name = plugin.command[0]
    try:
        answer = cast("dict[str, Any]", msgspec.json.decode(output))
        version = answer["apiVersion"]
        status = cast("dict[str, str]", answer["status"])
        expires = status.get("expirationTimestamp")
        expires_s = dt.datetime.fromisoformat(expires).timestamp() if expires else float("inf")
        token, certificate = status.get("token"), status.get("clientCertificateData")
        key = status.get("clientKeyData")
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidAccess(
            f"the credential plugin {name} did not answer with an ExecCredential: {error}"
        ) from error
    if version != plugin.api_version:
        raise InvalidAccess(
            f"the credential plugin {name} answered in {version}, but was asked in {plugin.api_version}"
        )
    if not token and not certificate:
        raise InvalidAccess(f"the credential plugin {name} answered with neither a token nor a certificate")
    if bool(certificate) != bool(key):
        raise InvalidAccess(
            f"the credential plugin {name} answered with only one of certificate and key; they go together"
        )
    return HandedOut(token, certificate, key, expires_s)
