"""A certificate authority of our own, and what it signs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

PASSWORD = "correct horse"
_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority:
    """A certificate authority; its own certificate is in `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._signed(self._subject, self._key, ca=True))

    def server(self, *hosts: str, clients: Authority | None = None) -> ssl.SSLContext:
        """Return the context of a server with those names.

        With `clients` it asks for client certificates of that authority.
        """
        certificate, key = self.issue("server", *(hosts or ("localhost", "127.0.0.1")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, PASSWORD)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.file)
        return context

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Write a certificate and its key, which the password opens; return both paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._folder / f"{name}.crt"
        certificate.write_bytes(self._signed(_name(name), key, hosts=hosts))
        key_file = self._folder / f"{name}.key"
        encryption = BestAvailableEncryption(PASSWORD.encode()) if PASSWORD else NoEncryption()
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return certificate, key_file

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        ca: bool = False,
        hosts: tuple[str, ...] = (),
    ) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        for extension, critical in _strict(key, self._key, ca=ca):
            builder = builder.add_extension(extension, critical=critical)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _strict(
    key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey, *, ca: bool
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """Yield the extensions that RFC 5280 requires of a certificate, and that Python checks
    since 3.13.
    """
    yield x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
    yield x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False
    nothing = dict.fromkeys(_USES, False)
    uses = {"key_cert_sign", "crl_sign"} if ca else {"digital_signature"}
    yield x509.KeyUsage(**nothing | dict.fromkeys(uses, True)), True


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
