"""A certificate authority for an installation that has no other issuer of certificates.

Its key signs certificates and nothing else. Keep it on a machine that runs no process of the
platform. Keys are P-256: every TLS 1.3 library has it, and a handshake costs a fraction of a
millisecond.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from peering.certificate import USAGES

CA_DAYS = 3650
PEER_DAYS = 365
PRIVATE, PUBLIC = 0o600, 0o644
EARLIER = timedelta(minutes=5)
"""Time by which a certificate is valid before it was made, because clocks of machines differ."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        """Write both files, the key first; existing files are replaced whole.

        Only the owner can read the key. The key comes first because a running process may read both
        files again between the two writes.
        """
        replace_file(key, self.key, PRIVATE)
        replace_file(certificate, self.certificate, PUBLIC)


def make_authority(name: str, *, days: float = CA_DAYS, now: datetime | None = None) -> Issued:
    """Return a new CA with a certificate signed by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(subject, key, days, now)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _issued(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: Issued,
    name: str,
    *,
    owner: str = "",
    days: float = PEER_DAYS,
    now: datetime | None = None,
) -> Issued:
    """Return a certificate for peers of the installation called `name`.

    `owner` is the common name of its subject. The certificate ends with the CA's at the latest.
    Raises ValueError if `authority` is not a key and certificate made here.
    """
    ca = x509.load_pem_x509_certificate(authority.certificate)
    ca_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is not one that was made here")
    if ca_key.public_key() != ca.public_key():
        raise ValueError("the key is not that of the CA's certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner or name)])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _builder(subject, key, days, now, no_later_than=ca.not_valid_after_utc)
        .issuer_name(ca.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(USAGES), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _issued(builder.sign(ca_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: float,
    now: datetime | None,
    no_later_than: datetime | None = None,
) -> x509.CertificateBuilder:
    start = now or datetime.now(UTC)
    end = start + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - EARLIER)
        .not_valid_after(min(end, no_later_than) if no_later_than is not None else end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(**used: bool) -> x509.KeyUsage:
    kinds = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**(dict.fromkeys(kinds, False) | used))


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    return Issued(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file by its whole content and sync the file, or leave it as it was; raises OSError.

    The directory is not synced: after a power failure the old file may be back.
    """
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
