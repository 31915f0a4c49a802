"""The cluster's certificates: one authority, and a key pair for every identity that Kubernetes knows by name.

Kubernetes reads a user's name from the certificate's common name and the groups from its organisations; the
names used here (`system:kube-scheduler`, `system:node:NAME` in `system:nodes`, …) are those that RBAC's own
bindings expect.
"""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = dt.timedelta(days=30)
CLOCK_SLACK = dt.timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """Files of a certificate and its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that exists for one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stowplan-testbed")])
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = _write(folder / "ca", certificate, self._key)

    def issue(
        self,
        file: str,
        common_name: str,
        *,
        organisations: Sequence[str] = (),
        addresses: Sequence[str] = (),
        ends: dt.datetime | None = None,
    ) -> KeyPair:
        """Issue a certificate, for a client and for a server alike.

        Args:
            file: Name of the two files, without the ending.
            common_name: The user's name, or the server's.
            organisations: The user's groups.
            addresses: IP addresses and DNS names that a server answers under.
            ends: When it is no longer valid; long after the cluster's end by default.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organisations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        builder = (
            _builder(subject, self._name, key.public_key(), ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
        )
        if addresses:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(address) for address in addresses]), critical=False
            )
        return _write(self.folder / file, builder.sign(self._key, hashes.SHA256()), key)

    def kubeconfig(self, path: Path, server: str, user: KeyPair) -> Path:
        """Write a kubeconfig of that user; the keys are inside, so the file can be moved."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(self.pair.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": "user",
                    "user": {
                        "client-certificate-data": _base64(user.certificate),
                        "client-key-data": _base64(user.key),
                    },
                }
            ],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
            "current-context": "testbed",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path


def service_account_keys(folder: Path) -> KeyPair:
    """The keys that sign and check service account tokens; `certificate` holds the public one."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = folder / "service-accounts.pub"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return KeyPair(public, _write_key(folder / "service-accounts.key", key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: dt.datetime | None = None
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    ends = ends or now + VALID_FOR
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - CLOCK_SLACK)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    path = stem.with_name(f"{stem.name}.crt")
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return KeyPair(path, _write_key(stem.with_name(f"{stem.name}.key"), key))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
