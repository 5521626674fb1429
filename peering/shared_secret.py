"""A secret that several processes know, and how it is changed while they run.

    setting          proves with   verifies
    old              old           old
    old,new          old           old, new
    new,old          new           new, old
    new              new           new

Processes with neighbouring settings accept each other. So three rounds of restarts, one process at
a time, change a secret without a refusal. A process never says which secrets it knows.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

MIN_BYTES = 16


@dataclass(frozen=True, slots=True, repr=False)
class SharedSecret:
    """A secret in its rotation: `first` makes proofs; `first` and `others` verify them."""

    first: bytes
    others: tuple[bytes, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> SharedSecret:
        """Return the secret written as `hex[,hex…]`, each at least 16 bytes.

        Raises ValueError, whose text never quotes a secret.
        """
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
        """Return a secret for one purpose: each part is derived, and proves nothing for other
        purposes.
        """
        first, *others = (hmac.digest(secret, purpose, "sha256") for secret in self.every)
        return SharedSecret(first, tuple(others))

    def prove(self, text: bytes) -> bytes:
        """Return the HMAC-SHA256 of a text, with the first secret."""
        return hmac.digest(self.first, text, "sha256")

    def verifies(self, proof: bytes, text: bytes) -> bool:
        """Return whether the proof is the HMAC-SHA256 of the text with any of the secrets."""
        return any(
            hmac.compare_digest(hmac.digest(secret, text, "sha256"), proof) for secret in self.every
        )
