"""A secret that several processes know, and how it is changed while they run.

    setting          proves with   verifies
    old              old           old
    old,new          old           old, new
    new,old          new           new, old
    new              new           new

Each line understands the one before and the one after: three rounds of restarts, one process at a
time, change a secret without a refusal. A process never says which of them it knows.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

MIN_BYTES = 16


@dataclass(frozen=True, slots=True, repr=False)
class SharedSecret:
    """`first` proves; it and the `others` verify."""

    first: bytes
    others: tuple[bytes, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> SharedSecret:
        """Of `hex[,hex…]`, at least 16 bytes each. Raises ValueError, which never quotes any."""
        try:
            secrets = [bytes.fromhex(part) for part in text.split(",")]
        except ValueError:
            raise ValueError("secrets are written in hexadecimal, with commas between") from None
        if not all(len(secret) >= MIN_BYTES for secret in secrets):
            raise ValueError(f"a secret has at least {MIN_BYTES} bytes")
        if len(set(secrets)) < len(secrets):
            raise ValueError("a secret is there twice")
        return cls(secrets[0], tuple(secrets[1:]))

    @property
    def every(self) -> tuple[bytes, ...]:
        return (self.first, *self.others)

    def __repr__(self) -> str:
        return f"SharedSecret(of {len(self.every)})"

    def derived(self, purpose: bytes) -> SharedSecret:
        """Another secret for each, good for that purpose alone."""
        first, *others = (hmac.digest(secret, purpose, "sha256") for secret in self.every)
        return SharedSecret(first, tuple(others))

    def prove(self, text: bytes) -> bytes:
        """HMAC-SHA256 with the first."""
        return hmac.digest(self.first, text, "sha256")

    def verifies(self, proof: bytes, text: bytes) -> bool:
        """Whether one of them proves that text so."""
        return any(
            hmac.compare_digest(hmac.digest(secret, text, "sha256"), proof) for secret in self.every
        )
