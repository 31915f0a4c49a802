"""Certificates of the cluster: each chains to the authority and says who it is as Kubernetes reads it."""

import base64
import json
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509.oid import NameOID

from testbed.certificates import Authority, KeyPair, service_account_keys


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def handshake(server: KeyPair, client: KeyPair, authority: Path, address: str) -> str:
    """Connect a client to a server over TLS, each checking the other; returns the client's common name."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.certificate, server.key)
    serving.load_verify_locations(authority)
    serving.verify_mode = ssl.CERT_REQUIRED
    asking = ssl.create_default_context(cafile=authority)
    asking.load_cert_chain(client.certificate, client.key)
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with suppress(ssl.SSLError), serving.wrap_socket(connection, server_side=True) as stream:
                shown = stream.getpeercert(binary_form=True)
                assert shown is not None
                subject = x509.load_der_x509_certificate(shown).subject
                seen.extend(str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME))
                stream.sendall(b"ok")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as plain,
                asking.wrap_socket(plain, server_hostname=address) as stream,
            ):
                assert stream.recv(2) == b"ok"
        finally:
            thread.join()
    return seen[0]


def test_server_and_client_accept_each_other_by_address(authority: Authority) -> None:
    server = authority.issue("server", "kube-apiserver", addresses=["10.9.0.1", "kubernetes.default"])
    client = authority.issue("client", "system:kube-scheduler")
    for address in ("10.9.0.1", "kubernetes.default"):
        name = handshake(server, client, authority.pair.certificate, address)
        assert name == "system:kube-scheduler"


def test_another_address_is_refused(authority: Authority) -> None:
    server = authority.issue("server", "kube-apiserver", addresses=["10.9.0.1"])
    client = authority.issue("client", "someone")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"10\.9\.0\.2"):
        handshake(server, client, authority.pair.certificate, "10.9.0.2")


def test_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "other")
    server = stranger.issue("server", "kube-apiserver", addresses=["10.9.0.1"])
    client = authority.issue("client", "someone")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, authority.pair.certificate, "10.9.0.1")


def test_the_groups_of_a_user_are_its_organisations(authority: Authority) -> None:
    pair = authority.issue("node", "system:node:node-1", organisations=["system:nodes"])
    subject = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:node:node-1"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:nodes"]


def test_private_keys_are_readable_by_their_owner_only(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("user", "someone")
    config = authority.kubeconfig(tmp_path / "kubeconfig", "https://10.9.0.1:443", pair)
    for secret in (pair.key, authority.pair.key, config, service_account_keys(tmp_path).key):
        assert secret.stat().st_mode & 0o077 == 0, secret


def test_a_kubeconfig_carries_everything_inside(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("user", "someone")
    text = authority.kubeconfig(tmp_path / "kubeconfig", "https://10.9.0.1:443", pair).read_text()
    config = json.loads(text)
    assert config["clusters"][0]["cluster"]["server"] == "https://10.9.0.1:443"
    assert base64.b64decode(config["users"][0]["user"]["client-key-data"]) == pair.key.read_bytes()
    assert str(tmp_path) not in text


def test_the_two_service_account_keys_belong_together(tmp_path: Path) -> None:
    pair = service_account_keys(tmp_path)
    private = load_pem_private_key(pair.key.read_bytes(), None)
    public = load_pem_public_key(pair.certificate.read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == public
