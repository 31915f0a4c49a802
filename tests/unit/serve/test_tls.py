"""How services are served by TLS: what is renewed is taken over, what came and cannot be used is not."""

import asyncio
import datetime as dt
import shutil
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.errors import InvalidFile
from stowplan.serve.tls import ServingCertificate
from testbed.certificates import Authority, KeyPair
from tests.unit.webhook.reviews import until

LONG = dt.timedelta(days=30)


class Pair:
    """Files of a certificate and its key."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "tls.crt"
        self.key = folder / "tls.key"

    def issue(
        self,
        name: str,
        *,
        valid: dt.timedelta = LONG,
        is_rsa: bool = False,
        for_servers: bool = True,
        password: bytes | None = None,
    ) -> None:
        """Write a pair of that common name, which vouches for itself."""
        key = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if for_servers else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=60))
            .not_valid_after(now + valid)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(key, hashes.SHA256())
        )
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password)
        )
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    made.issue("first")
    return made


def serving(pair: Pair, told: list[float] | None = None) -> ServingCertificate:
    on_change = (lambda _: None) if told is None else told.append
    return ServingCertificate(pair.certificate, pair.key, reload_s=0.001, on_change=on_change)


async def shown(port: int) -> str:
    """The common name of the certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    (name,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("is_rsa", [False, True], ids=["same-key-type", "another-key-type"])
def test_new_connections_are_shown_the_renewed_certificate(pair: Pair, is_rsa: bool) -> None:
    async def story() -> None:
        told: list[float] = []
        certificate = serving(pair, told)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificate.context)
        port = server.sockets[0].getsockname()[1]
        async with server:
            assert await shown(port) == "first"
            pair.issue("second", valid=2 * LONG, is_rsa=is_rsa)
            watching = asyncio.create_task(certificate.run())

            async def is_renewed() -> bool:
                return await shown(port) == "second"

            await until(is_renewed)
            watching.cancel()
        assert [round((later - told[0]) / 86400) for later in told] == [0, 30]
        assert certificate.error == ""

    asyncio.run(story())


def test_what_cannot_be_used_is_not_taken_over_and_told(pair: Pair, tmp_path: Path) -> None:
    certificate = serving(pair)
    other = Pair(tmp_path / "other")
    other.certificate.parent.mkdir()
    other.issue("other")
    whole = pair.certificate.read_bytes(), pair.key.read_bytes()

    # Half of a renewal; the other half comes a moment later.
    pair.certificate.write_bytes(other.certificate.read_bytes())
    certificate.look()
    assert "KEY_VALUES_MISMATCH" in certificate.error
    pair.key.write_bytes(other.key.read_bytes())
    certificate.look()
    assert certificate.error == ""
    # Gone, and back.
    pair.key.unlink()
    certificate.look()
    assert certificate.error == f"{pair.key} cannot be read: No such file or directory"
    pair.key.write_bytes(other.key.read_bytes())
    certificate.look()
    assert certificate.error == ""
    # Expired: what is used stays.
    pair.issue("third", valid=-dt.timedelta(days=1))
    certificate.look()
    assert "certificate has expired" in certificate.error
    pair.certificate.write_bytes(whole[0])
    pair.key.write_bytes(whole[1])
    certificate.look()
    assert certificate.error == ""


def test_a_certificate_that_runs_out_while_it_is_used_is_told(pair: Pair) -> None:
    now_s = [dt.datetime.now(dt.UTC).timestamp()]
    certificate = ServingCertificate(
        pair.certificate, pair.key, reload_s=1.0, on_change=lambda _: None, wall=lambda: now_s[0]
    )
    assert certificate.error == ""
    now_s[0] += LONG.total_seconds() + 1.0
    assert certificate.error == f"{pair.certificate} has expired; renew it"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"valid": -dt.timedelta(days=1)}, "certificate has expired; renew it"),
        ({"for_servers": False}, "cannot be served: .*purpose"),
        ({"password": b"secret"}, "cannot be used: .*; write a pair in PEM"),
    ],
    ids=["expired", "of-a-client", "encrypted"],
)
def test_what_could_not_be_served_is_refused_at_once(
    pair: Pair, options: dict[str, object], words: str
) -> None:
    pair.issue("bad", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidFile, match=words):
        serving(pair)


def test_files_that_are_no_pair_are_refused_at_once(pair: Pair) -> None:
    pair.certificate.write_text("nothing")
    with pytest.raises(InvalidFile, match="write a pair in PEM"):
        serving(pair)
    pair.certificate.unlink()
    with pytest.raises(InvalidFile, match=r"tls.crt cannot be read: No such file or directory"):
        serving(pair)


def test_old_versions_of_tls_are_refused(pair: Pair) -> None:
    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving(pair).context)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        assert context.minimum_version <= ssl.TLSVersion.TLSv1_2
        async with server:
            assert await shown(server.sockets[0].getsockname()[1]) == "first"
        assert serving(pair).context.minimum_version is ssl.TLSVersion.TLSv1_2

    asyncio.run(story())


def test_a_caller_that_never_shakes_hands_does_not_stop_others(pair: Pair) -> None:
    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving(pair).context)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with socket.create_connection(("127.0.0.1", port)):
                assert await shown(port) == "first"

    asyncio.run(story())


# ---- who is let in ----


async def is_let_in(port: int, authority: Path, client: KeyPair) -> bool:
    """Whether a client's certificate is taken: by TLS 1.3 only the first answer tells."""
    trust = ssl.create_default_context(cafile=authority)
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    trust.load_cert_chain(client.certificate, client.key)
    try:
        reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
        writer.write(b"?")
        await writer.drain()
        said = await reader.read(5)
    except (ssl.SSLError, ConnectionError):
        return False
    writer.close()
    return said == b"hello"


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"hello")
    await writer.drain()
    writer.close()


def test_another_client_authority_is_taken_over_and_one_that_cannot_be_used_is_not(tmp_path: Path) -> None:
    ours, old, new = (Authority(tmp_path / name) for name in ("ours", "old", "new"))
    pair = ours.issue("server", "server", addresses=["localhost"])
    clients = [authority.issue("client", "client") for authority in (old, new)]
    trusted = Path(shutil.copy(old.pair.certificate, tmp_path / "clients.crt"))
    certificate = ServingCertificate(
        pair.certificate, pair.key, trusted, reload_s=1.0, on_change=lambda _: None
    )

    async def story() -> None:
        server = await asyncio.start_server(greet, "localhost", 0, ssl=certificate.context)
        port = server.sockets[0].getsockname()[1]

        async def let_in() -> list[bool]:
            return [await is_let_in(port, ours.pair.certificate, client) for client in clients]

        def renew(content: bytes) -> None:
            trusted.write_bytes(content)
            certificate.look()

        async with server:
            assert await let_in() == [True, False]
            renew(b"nothing")
            assert certificate.error.startswith(f"the client authority {trusted} cannot be used: ")
            assert await let_in() == [True, False]
            renew(new.pair.certificate.read_bytes())
            assert certificate.error == ""
            assert await let_in() == [False, True]

    asyncio.run(story())


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "keys")
    one, other = authority.issue("one", "one"), authority.issue("other", "other")
    missing = tmp_path / "missing.pem"
    for certificate, key, clients, words in (
        (missing, one.key, None, r"missing\.pem cannot be read"),
        (one.certificate, other.key, None, r"one\.crt with .*other\.key cannot be used: KEY_VALUES_MISMATCH"),
        (one.certificate, one.key, missing, r"missing\.pem cannot be read"),
        (one.certificate, one.key, one.key, r"client authority .*one\.key cannot be used: "),
    ):
        with pytest.raises(InvalidFile, match=words):
            ServingCertificate(certificate, key, clients, reload_s=1.0, on_change=lambda _: None)
