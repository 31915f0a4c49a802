"""What a kubeconfig may say, and how each thing that cannot be used is told."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.api.access import Access, from_environment, from_kubeconfig, from_service_account
from stowplan.kube.api.errors import InvalidAccess
from stowplan.kube.api.tls import tls_context
from testbed.certificates import Authority, KeyPair

Json = dict[str, Any]


def config(cluster: Json | None = None, user: Json | None = None, **fields: object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    } | fields


def write(folder: Path, content: Json | str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return Authority(tmp_path_factory.mktemp("authority")).issue("user", "user")


def test_a_kubeconfig_with_everything(tmp_path: Path, pair: KeyPair) -> None:
    (tmp_path / "ca.pem").write_text("authority")
    cluster = {
        "certificate-authority": "ca.pem",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
    }
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(pair.key.read_bytes()).decode(),
        "as": "robot",
        "as-groups": ["a", "b"],
        "as-user-extra": {"why/so": ["x"]},
    }
    access = from_kubeconfig([write(tmp_path, config(cluster, user))])
    assert access == Access(
        server="https://k:6443",
        authority_pem="authority",
        tls_server_name="kubernetes",
        proxy="http://proxy:3128",
        is_uncompressed=True,
        certificate_pem=pair.certificate.read_text(),
        key_pem=pair.key.read_text(),
        impersonation=(
            ("Impersonate-User", "robot"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-why%2Fso", "x"),
        ),
        namespace="team",
        origin=f"context c of {tmp_path / 'config'}",
    )


def test_of_several_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first = write(tmp_path, {"kind": "Config", "users": [{"name": "u", "user": {"token": "first"}}]}, "first")
    second = write(tmp_path, config(user={"token": "second"}), "second")
    access = from_kubeconfig([tmp_path / "absent", first, second])
    assert (access.token, access.server) == ("first", "https://k:6443")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: [", "config is no YAML"),
        ("", "is no kubeconfig: Expected `object`"),
        ({"kind": "Pod"}, "its kind is Pod, not Config"),
        (config() | {"current-context": ""}, "no current-context: name one with --context; it has c"),
        (config() | {"current-context": "d"}, "has no context 'd'; it has c"),
        (config(clusters=[]), "has no cluster 'k'; it has none"),
        (config(users=[]), "has no user 'u'; it has none"),
        (config({"server": "k:6443"}), "its server is 'k:6443', not an https:// address"),
        (config({"certificate-authority": "absent.pem"}), "absent.pem cannot be read"),
        (config({"certificate-authority-data": "%%"}), "certificate-authority-data is not the base64"),
        (config({"proxy-url": "socks5://p"}), "proxy-url is 'socks5://p'; only http://"),
        (
            config({"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ=="}),
            "insecure-skip-tls-verify and a certificate-authority: remove one",
        ),
        (config(user={"client-certificate-data": "YQ=="}), "lacks client-key"),
        (config(user={"client-key-data": "YQ=="}), "lacks client-certificate"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider, which Kubernetes removed"),
        (config(user={"as-groups": ["system:masters"]}), "as-groups, as-uid or as-user-extra but no `as`"),
        (
            config(user={"exec": {"command": "login", "interactiveMode": "Always"}}),
            "credential plugin login has interactiveMode Always",
        ),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, content: Json | str, told: str) -> None:
    with pytest.raises(InvalidAccess) as refusal:
        from_kubeconfig([write(tmp_path, content)])
    assert told in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidAccess, match="absent does not exist: check --kubeconfig or KUBECONFIG"):
        from_kubeconfig([tmp_path / "absent"])


def test_where_access_is_looked_for(tmp_path: Path) -> None:
    named = write(tmp_path, config(user={"token": "named"}), "named")
    by_variable = write(tmp_path, config(user={"token": "variable"}), "variable")
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", config(user={"token": "home"}))
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("pod")
    (account / "ca.crt").write_text("authority")
    home = {"HOME": str(tmp_path)}
    pod = home | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    variable = pod | {"KUBECONFIG": str(by_variable)}
    assert [from_environment(named, environment=variable, service_account=account).token] == ["named"]
    assert [from_environment(environment=variable, service_account=account).token] == ["variable"]
    in_pod = from_environment(environment=pod, service_account=account)
    assert (in_pod.server, in_pod.token_file) == ("https://[fd00::1]:443", account / "token")
    assert [from_environment(environment=home, service_account=account).token] == ["home"]
    with pytest.raises(InvalidAccess, match="name a kubeconfig"):
        from_environment(environment={"HOME": str(account)}, service_account=account)


def test_a_service_account_without_its_authority(tmp_path: Path) -> None:
    with pytest.raises(InvalidAccess, match=r"ca\.crt cannot be read"):
        from_service_account({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


@pytest.mark.parametrize("authority", ["", "no certificate"])
def test_an_authority_that_is_none(authority: str) -> None:
    access = Access(server="https://k", authority_pem=authority, origin="somewhere")
    with pytest.raises(InvalidAccess, match="certificate authority of somewhere cannot be used"):
        tls_context(access, None, None)


def test_a_key_of_another_certificate_or_one_with_a_password(tmp_path: Path, pair: KeyPair) -> None:
    access = Access(server="https://k", origin="somewhere")
    other = Authority(tmp_path).issue("other", "other")
    encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n"
    for key in (other.key.read_text(), encrypted, "none"):
        with pytest.raises(InvalidAccess, match="client certificate or key of somewhere cannot be used"):
            tls_context(access, pair.certificate.read_text(), key)
