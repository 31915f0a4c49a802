"""How to reach a cluster: from a kubeconfig, as kubectl reads it, or from the service account that a pod has.

What a kubeconfig demands and Stowplan cannot do is refused: to pass over an entry could mean more rights than
its author meant, or another way to the server.

Source: kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig (merging: the first file
that sets a name wins; paths are relative to the file that they stand in) and
kubernetes.io/docs/tasks/run-application/access-api-from-pod.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import yaml

from stowplan.kube.api.errors import InvalidAccess

__all__ = ["Access", "ExecPlugin", "from_environment", "from_kubeconfig", "from_service_account"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that hands out credentials (client.authentication.k8s.io).

    Attributes:
        command: Program and arguments.
        environment: Variables beside this process's own.
        api_version: The version of the protocol that it speaks.
        cluster: What it is told of the cluster, when it asked to be told.
        install_hint: What its author says to whoever does not have it.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Json | None = None
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An API server and one user of it.

    Attributes:
        server: Its address, such as `https://10.0.0.1:6443`.
        authority_pem: Certificates that vouch for the server; None trusts the system's.
        is_insecure: Whether the server's certificate is not checked at all.
        tls_server_name: The name that its certificate is for, where that is not the address's.
        certificate_pem: The user's certificate.
        key_pem: The user's private key.
        certificate_file: Where the certificate was read, if it was a file: it may be replaced.
        key_file: The same for the key.
        token: A bearer token that stays as it is.
        token_file: A file with a bearer token that is replaced from time to time.
        basic: User name and password.
        plugin: A program that hands out credentials.
        impersonation: Headers, as name and value, that ask for the rights of another.
        proxy: A proxy that leads to the server, as http:// address.
        is_uncompressed: Whether answers are asked for uncompressed.
        namespace: Where objects are looked for when no namespace is named.
        origin: Where this was read, for messages.
    """

    server: str
    authority_pem: str | None = None
    is_insecure: bool = False
    tls_server_name: str | None = None
    certificate_pem: str | None = None
    key_pem: str | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    token: str | None = None
    token_file: Path | None = None
    basic: tuple[str, str] | None = None
    plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    is_uncompressed: bool = False
    namespace: str = "default"
    origin: str = ""


def from_environment(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The access that a command or service should use.

    A named kubeconfig comes first, then KUBECONFIG, then the service account of the pod that this runs in,
    then `~/.kube/config`.

    Raises:
        InvalidAccess: There is none, or it cannot be used.
    """
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context)
    named = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        return from_kubeconfig(named, context)
    if environment.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return from_service_account(environment, service_account)
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig([home], context)
    raise InvalidAccess(
        "no cluster to talk to: name a kubeconfig (--kubeconfig or KUBECONFIG), "
        "or run in a pod with a service account"
    )


def from_service_account(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access of the pod that this runs in; its token is read again as the kubelet replaces it.

    Raises:
        InvalidAccess: A file of the service account is missing.
    """
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"  # an IPv6 address
    namespace = folder / "namespace"
    return Access(
        server=f"https://{host}:{port}",
        authority_pem=_text(folder / "ca.crt"),
        token_file=folder / "token",
        namespace=_text(namespace).strip() if namespace.exists() else "default",
        origin=str(folder),
    )


class _Entry(msgspec.Struct, rename="kebab"):
    """Fields of a kubeconfig are mostly written with hyphens."""


class _Cluster(_Entry):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class _User(_Entry):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Json | None = None
    impersonated: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""
    namespace: str = "default"


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster
    folder: Path = Path()


class _NamedUser(msgspec.Struct):
    name: str
    user: _User
    folder: Path = Path()


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context
    folder: Path = Path()


class _Kubeconfig(_Entry):
    kind: str = "Config"
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


_Named = TypeVar("_Named", _NamedCluster, _NamedUser, _NamedContext)


def from_kubeconfig(paths: list[Path], context: str | None = None) -> Access:
    """The access of a context of one or more kubeconfigs.

    Args:
        paths: Files; one that does not exist is passed over when there are several, as kubectl does.
        context: Its name; the current one by default.

    Raises:
        InvalidAccess: A file or an entry is missing or cannot be used; the message names it.
    """
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise InvalidAccess(f"the kubeconfig {paths[0]} does not exist: check --kubeconfig or KUBECONFIG")
    first = existing[0]
    files = [_read(path) for path in existing]
    contexts = [entry for file in files for entry in file.contexts or []]
    name = context or next((file.current_context for file in files if file.current_context), "")
    if not name:
        known = ", ".join(entry.name for entry in contexts) or "none"
        raise InvalidAccess(f"{first} has no current-context: name one with --context; it has {known}")
    chosen = _find(contexts, name, "context", first).context
    cluster = _find([e for f in files for e in f.clusters or []], chosen.cluster, "cluster", first)
    users = [entry for file in files for entry in file.users or []]
    user = _find(users, chosen.user, "user", first) if chosen.user else _NamedUser("", _User())
    server = cluster.cluster.server
    origin = f"context {name} of {first}"
    if not server.startswith(("https://", "http://")):
        raise InvalidAccess(f"{origin}: its server is {server!r}, not an https:// address")
    proxy = cluster.cluster.proxy_url or None
    if proxy is not None and not proxy.startswith("http://"):
        raise InvalidAccess(f"{origin}: its proxy-url is {proxy!r}; only http:// proxies are supported")
    authority = _pem(
        cluster.cluster.certificate_authority_data,
        cluster.cluster.certificate_authority,
        cluster.folder,
        f"{origin}: certificate-authority",
    )
    if cluster.cluster.insecure_skip_tls_verify and authority is not None:
        raise InvalidAccess(
            f"{origin}: its cluster has insecure-skip-tls-verify and a certificate-authority: remove one"
        )
    return Access(
        server=server.rstrip("/"),
        authority_pem=authority,
        is_insecure=cluster.cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.cluster.tls_server_name,
        proxy=proxy,
        is_uncompressed=cluster.cluster.disable_compression,
        namespace=chosen.namespace or "default",
        origin=origin,
        **_user(user, cluster.cluster, authority, origin),
    )


def _user(entry: _NamedUser, cluster: _Cluster, authority: str | None, origin: str) -> Json:
    user, folder = entry.user, entry.folder
    if user.auth_provider is not None:
        raise InvalidAccess(
            f"{origin}: its user has an auth-provider, which Kubernetes removed: use exec credentials"
        )
    certificate = _pem(
        user.client_certificate_data, user.client_certificate, folder, f"{origin}: client-certificate"
    )
    key = _pem(user.client_key_data, user.client_key, folder, f"{origin}: client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise InvalidAccess(f"{origin}: its user lacks {missing}; certificate and key go together")
    are_files = not user.client_certificate_data and not user.client_key_data
    return {
        "certificate_pem": certificate,
        "key_pem": key,
        "certificate_file": folder / user.client_certificate
        if are_files and user.client_certificate
        else None,
        "key_file": folder / user.client_key if are_files and user.client_key else None,
        "token": None if user.token_file else user.token,
        "token_file": folder / user.token_file if user.token_file else None,
        "basic": (user.username, user.password) if user.username else None,
        "plugin": _plugin(user.exec, folder, cluster, authority, origin) if user.exec else None,
        "impersonation": _impersonation(user, origin),
    }


def _impersonation(user: _User, origin: str) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-Group", group) for group in user.as_groups or []]
    headers += [
        (f"Impersonate-Extra-{quote(name, safe='')}", value)
        for name, values in (user.as_user_extra or {}).items()
        for value in values
    ]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    if user.impersonated:
        return (("Impersonate-User", user.impersonated), *headers)
    if headers:
        raise InvalidAccess(f"{origin}: its user has as-groups, as-uid or as-user-extra but no `as`")
    return ()


def _plugin(spec: _Exec, folder: Path, cluster: _Cluster, authority: str | None, origin: str) -> ExecPlugin:
    if spec.interactive_mode == "Always":
        raise InvalidAccess(
            f"{origin}: its credential plugin {spec.command} has interactiveMode Always; here is no terminal"
        )
    relative = "/" in spec.command and not spec.command.startswith("/")
    told = None
    if spec.provide_cluster_info:
        told = {
            "server": cluster.server,
            "certificate-authority-data": authority and base64.b64encode(authority.encode()).decode(),
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify or None,
            "tls-server-name": cluster.tls_server_name,
            "proxy-url": cluster.proxy_url,
        }
        told = {name: value for name, value in told.items() if value is not None}
    return ExecPlugin(
        command=(str(folder / spec.command) if relative else spec.command, *(spec.args or [])),
        environment=tuple((pair.name, pair.value) for pair in spec.env or []),
        api_version=spec.api_version,
        cluster=told,
        install_hint=spec.install_hint,
    )


def _find(entries: Iterable[_Named], name: str, kind: str, file: Path) -> _Named:
    """The first entry of that name; a later file does not change what an earlier one says."""
    names: list[str] = []
    for entry in entries:
        if entry.name == name:
            return entry
        names.append(entry.name)
    raise InvalidAccess(f"{file} has no {kind} {name!r}; it has {', '.join(names) or 'none'}")


def _read(path: Path) -> _Kubeconfig:
    try:
        document: object = yaml.safe_load(_text(path))
        file = msgspec.convert(document, _Kubeconfig, strict=False)
    except yaml.YAMLError as error:
        raise InvalidAccess(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise InvalidAccess(f"{path} is no kubeconfig: {error}") from error
    if file.kind != "Config":
        raise InvalidAccess(f"{path} is no kubeconfig: its kind is {file.kind}, not Config")
    for entry in (*(file.clusters or ()), *(file.users or ()), *(file.contexts or ())):
        entry.folder = path.parent
    return file


def _pem(inline: str | None, file: str | None, folder: Path, what: str) -> str | None:
    if inline:
        try:
            return base64.b64decode(inline, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InvalidAccess(f"{what}-data is not the base64 of a PEM text: {error}") from error
    return _text(folder / file) if file else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidAccess(f"{path} cannot be read: {error}") from error
