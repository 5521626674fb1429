"""Errors of checking a token.

AuthError
├── TokenRefused        not a token of ours, expired or revoked; the text never says which
├── TenantSuspended     the token is valid and its tenant is not served now (403)
└── VerifierUnavailable the token could not be checked now (503, never a guess)
"""

from __future__ import annotations


class AuthError(Exception):
    """Any failure to verify a token."""


class TokenRefused(AuthError):
    """The token is not valid; callers learn no more than that."""


class TenantSuspended(AuthError):
    """The token is valid; its tenant has been suspended."""


class VerifierUnavailable(AuthError):
    """The data that decides about the token cannot be reached, and nothing valid is cached."""
