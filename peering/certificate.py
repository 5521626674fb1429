"""The parts of a certificate that peers have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

USAGES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
"""Usages that every certificate needs, because a peer both dials and listens."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate read from a PEM file."""

    subject: str
    names: frozenset[str]
    """DNS names, in lower case."""
    until_s: float
    """Seconds since 1970 at which the certificate ends."""
    both_usages: bool
    """Whether both a listener and a dialer may show it."""

    def __str__(self) -> str:
        names = ", ".join(sorted(self.names)) or "no DNS name"
        return f"{self.subject}, for {names}, until {_date(self.until_s)}"

    def fault(self, name: str, now_s: float) -> str | None:
        """Return why peers would refuse the certificate, or None if nothing in it says so."""
        if name.lower() not in self.names:
            told = ", ".join(sorted(self.names)) or "none"
            return f"it is not for the name {name} (its DNS names: {told})"
        if not self.both_usages:
            return "its extended key usage lacks serverAuth or clientAuth"
        if now_s >= self.until_s:
            return f"it ended at {_date(self.until_s)}"
        return None


def read(pem: bytes) -> list[Certificate]:
    """Return the certificates of a PEM file in order, at least one; raises ValueError."""
    return [_certificate(one) for one in x509.load_pem_x509_certificates(pem)]


def _date(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def _certificate(one: x509.Certificate) -> Certificate:
    extensions = one.extensions
    names: list[str] = []
    usages: x509.ExtendedKeyUsage | None = None
    for extension in extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = extension.value.get_values_for_type(x509.DNSName)
        elif isinstance(extension.value, x509.ExtendedKeyUsage):
            usages = extension.value
    return Certificate(
        one.subject.rfc4514_string(),
        frozenset(name.lower() for name in names),
        one.not_valid_after_utc.timestamp(),
        usages is None or all(usage in usages for usage in USAGES),
    )
