"""Who may ask and who may not, on a real API server: what is told, and what mends itself."""

import asyncio
import base64
import dataclasses
import datetime as dt
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.kube.api.access import Access, from_kubeconfig, from_service_account
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Forbidden, InvalidAccess, Unauthorized, Unreachable
from stowplan.kube.api.resources import NAMESPACES, PODS, Resource
from testbed import certificates
from testbed.certificates import KeyPair
from tests.cluster.kube_api_plane import Plane, bare_plane

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


def issue(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, file: str, user: str, valid_for: dt.timedelta
) -> KeyPair:
    """A client certificate that is valid for so long; negative for one that has run out."""
    monkeypatch.setattr(certificates, "VALID_FOR", valid_for)
    return plane.plane.authority.issue(file, user, organisations=["system:masters"])


def with_certificate(access: Access, pair: KeyPair) -> Access:
    return dataclasses.replace(
        access,
        certificate_pem=pair.certificate.read_text(),
        key_pem=pair.key.read_text(),
        certificate_file=pair.certificate,
        key_file=pair.key,
    )


def ask(access: Access) -> bytes:
    async def get() -> bytes:
        async with ApiClient(access) as client:
            return await client.get(NAMESPACES, "default")

    return asyncio.run(get())


def test_a_missing_right_is_named_with_its_verb(plane: Plane) -> None:
    access = from_kubeconfig([plane.plane.kubeconfig_for("nobody", "nobody")])

    async def story() -> None:
        async with ApiClient(access) as client:
            with pytest.raises(Forbidden, match=r'"nobody" cannot list resource "pods".*grant the verb'):
                await client.page(PODS)
            with pytest.raises(Forbidden, match=r'cannot create resource "pods/binding"'):
                await client.post(PODS, "p", "binding", {}, "default")

    asyncio.run(story())


def test_a_certificate_that_has_run_out(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = issue(plane, monkeypatch, "late", "late", dt.timedelta(minutes=-1))
    with pytest.raises(Unauthorized, match="check the token or the client certificate"):
        ask(with_certificate(plane.access, pair))


def test_a_certificate_file_that_was_replaced_is_read_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = issue(plane, monkeypatch, "renewed", "renewed", dt.timedelta(minutes=-1))
    access = with_certificate(plane.access, pair)
    issue(plane, monkeypatch, "renewed", "renewed", dt.timedelta(days=1))
    assert b'"default"' in ask(access)


def test_another_authority_is_not_trusted(plane: Plane, tmp_path: Path) -> None:
    stranger = certificates.Authority(tmp_path)
    access = dataclasses.replace(plane.access, authority_pem=stranger.pair.certificate.read_text())
    with pytest.raises(Unreachable, match=r"certificate is not trusted.*check certificate-authority"):
        ask(access)


def test_a_name_that_the_certificate_is_not_for(plane: Plane) -> None:
    wrong = dataclasses.replace(plane.access, tls_server_name="elsewhere.example")
    with pytest.raises(Unreachable, match="not trusted"):
        ask(wrong)
    right = dataclasses.replace(plane.access, tls_server_name="kubernetes.default")
    assert b'"default"' in ask(right)


def test_nobody_listens(plane: Plane) -> None:
    with pytest.raises(Unreachable, match=r"no connection: .*refused"):
        ask(dataclasses.replace(plane.access, server=f"https://{plane.plane.site.hub_address}:1"))


def test_impersonation_has_the_rights_of_the_other(plane: Plane) -> None:
    as_nobody = dataclasses.replace(plane.access, impersonation=(("Impersonate-User", "somebody"),))
    with pytest.raises(Forbidden, match='User "somebody" cannot get'):
        ask(as_nobody)


def test_a_service_account_whose_token_is_replaced(plane: Plane, tmp_path: Path) -> None:
    async def token(client: ApiClient, name: str) -> str:
        await client.create(ACCOUNTS, {"metadata": {"name": name}}, "default")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await client.post(ACCOUNTS, name, "token", asked, "default")
        return msgspec.json.decode(answer)["status"]["token"]

    async def story() -> None:
        async with ApiClient(plane.access) as administrator:
            old, new = await token(administrator, "old"), await token(administrator, "new")
            assert plane.access.authority_pem is not None
            (tmp_path / "ca.crt").write_text(plane.access.authority_pem)
            (tmp_path / "namespace").write_text("default\n")
            (tmp_path / "token").write_text(old + "\n")
            host, port = plane.target
            environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
            access = from_service_account(environment, tmp_path)
            assert access.namespace == "default"
            async with ApiClient(access) as client:
                with pytest.raises(Forbidden, match="system:serviceaccount:default:old"):
                    await client.get(NAMESPACES, "default")
                await administrator.delete(ACCOUNTS, "old", "default")
                (tmp_path / "token").write_text(new)
                said = ""
                for _ in range(300):  # the server believes a token for ten seconds
                    with pytest.raises((Forbidden, Unauthorized)) as refusal:
                        await client.get(NAMESPACES, "default")
                    said = str(refusal.value)
                    if "default:new" in said:
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError(said)

    asyncio.run(story())


PLUGIN = """#!/usr/bin/env python3
import json, os, pathlib
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert told["spec"]["cluster"]["server"].startswith("https://"), told
here = pathlib.Path(os.environ["FOLDER"])
turn = len(list(here.glob("asked-*")))
(here / f"asked-{turn}").touch()
pair = ["late", "early"][min(turn, 1)]
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": {
    "clientCertificateData": (here / f"{pair}.crt").read_text(),
    "clientKeyData": (here / f"{pair}.key").read_text()}}))
"""


def plugin_kubeconfig(plane: Plane, folder: Path, command: str) -> Path:
    authority = plane.access.authority_pem
    assert authority is not None
    execute = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "env": [{"name": "FOLDER", "value": str(folder)}],
        "provideClusterInfo": True,
        "installHint": "ask the platform team for it",
        "interactiveMode": "Never",
    }
    cluster = {
        "server": plane.access.server,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    config = {
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": execute}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path


def test_a_plugin_is_asked_again_when_the_server_no_longer_takes_its_certificate(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, minutes in (("late", -1), ("early", 60)):
        pair = issue(plane, monkeypatch, name, name, dt.timedelta(minutes=minutes))
        (tmp_path / f"{name}.crt").write_text(pair.certificate.read_text())
        (tmp_path / f"{name}.key").write_text(pair.key.read_text())
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    access = from_kubeconfig([plugin_kubeconfig(plane, tmp_path, "./plugin")])

    async def story() -> None:
        async with ApiClient(access) as client:
            await asyncio.gather(*(client.get(NAMESPACES, "default") for _ in range(8)))

    asyncio.run(story())
    assert len(list(tmp_path.glob("asked-*"))) == 2  # once for all that were refused


def test_a_plugin_that_is_not_there(plane: Plane, tmp_path: Path) -> None:
    access = from_kubeconfig([plugin_kubeconfig(plane, tmp_path, "stowplan-no-such-plugin")])
    with pytest.raises(InvalidAccess, match=r"cannot be run: No such file.*ask the platform team"):
        ask(access)
