"""Tokens of a tenant's own OIDC issuer, read by the rules of RFC 8725.

The tenant's configuration decides: the issuer (compared as text), the audience, the algorithms, the
claim that names the subject, and claims that must be there. If tenants share an issuer, the
audience says for which of them a token is: a tenant that has proved the audience takes precedence
over one that has not (`Trust`), so no registration takes another tenant's tokens. A token's header
chooses among the keys of that issuer, and nothing else.

The subject is `issuer:NAME#SUBJECT`, whose permissions are decided by the tenant's policies. The
principal's `credential` is `issuer:NAME`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joserfc import jws as jose
from joserfc.errors import JoseError, SecurityWarning

from auth import jws
from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.issuer_keys import ALGORITHMS, IssuerKeys
from auth.known import Known
from auth.policies import PolicyCache
from auth.principal import Principal
from metadata.tenancy.issuers import Issuer, IssuerRepository
from metadata.types import Change, ChangeKind

LEEWAY_S = 30
"""Seconds by which clocks may differ."""
MAX_SUBJECT = 256
"""Characters of a subject."""
MAX_ISSUER = 512
MAX_AUDIENCES = 32
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
"""Types of tokens that are for us, if they name a type: no logout token, no proof of possession."""
_PROOFS = (
    frozenset({"audience"}),
    frozenset({"document", "operator"}),
    frozenset({"unproved"}),
)
"""Groups of proofs, the best first; a tenant with a lesser proof gets no token from one with a
better.
"""


@dataclass(frozen=True, slots=True)
class _Trusted:
    """The tenants' configurations of one issuer, at least one."""

    issuers: tuple[Issuer, ...]


class IssuerVerifier:
    """A `TokenVerifier`. `on_changes` is a listener of the change feed."""

    def __init__(
        self,
        issuers: IssuerRepository,
        keys: IssuerKeys,
        directory: ClientDirectory,
        grants: PolicyCache,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        async def read(issuer: str) -> _Trusted | None:
            found = await issuers.by_issuer(issuer)
            return _Trusted(found) if found else None

        self._trusted = Known[str, _Trusted](read)
        self._keys = keys
        self._directory = directory
        self._grants = grants
        self._clock = clock

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused, TenantSuspended or VerifierUnavailable."""
        header, claims = jws.read(token)
        algorithm, kid = header.get("alg"), _kid(header)
        if str(header.get("typ", "jwt")).lower() not in _TYPES:
            raise TokenRefused
        issuer = await self._issuer_of(claims)
        if algorithm not in issuer.algorithms or algorithm not in ALGORITHMS:
            raise TokenRefused
        # Every check that costs nothing is made before anybody is asked for a key.
        subject, expires_at = self._checked(issuer, claims)
        await self._directory.require_served(issuer.tenant_id)
        keys = await self._keys.candidates(issuer.tenant_id, issuer.issuer, kid, algorithm)
        if not any(_signed(token, key.key, algorithm) for key in keys):
            raise TokenRefused
        return Principal(
            tenant_id=issuer.tenant_id,
            subject=subject,
            grants=await self._grants.of(issuer.tenant_id, subject),
            credential=f"issuer:{issuer.name}",
            expires_at=expires_at,
        )

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._trusted.forget(lambda _: True)
            self._keys.forget(None)
            return
        about = (ChangeKind.ISSUER, ChangeKind.TENANT)
        tenants = frozenset(change.tenant_id for change in changes if change.kind in about)
        if tenants:
            # A change may also add an issuer that another tenant trusts already.
            self._trusted.forget(lambda _: True)
            self._keys.forget(tenants)

    async def _issuer_of(self, claims: Mapping[str, Any]) -> Issuer:
        """Return the configuration with the best proof that trusts the issuer for one of the
        audiences.

        Raises TokenRefused.
        """
        name, audiences = claims.get("iss"), claims.get("aud")
        if isinstance(audiences, str):
            audiences = [audiences]
        if not isinstance(name, str) or not 0 < len(name) <= MAX_ISSUER:
            raise TokenRefused
        if not isinstance(audiences, list) or not 0 < len(audiences) <= MAX_AUDIENCES:
            raise TokenRefused
        trusted = await self._trusted.get(name)
        known = [each for each in trusted.issuers if each.issuer == name] if trusted else []
        fitting = [each for each in known if each.audience in audiences]
        owners = {each.tenant_id for each in known if each.trust == "document"}
        for proofs in _PROOFS:
            found = [each for each in fitting if each.trust in proofs]
            if "unproved" in proofs and owners:
                # The issuer belongs to a tenant that has not configured this audience.
                found = [each for each in found if each.tenant_id in owners]
            if len(found) == 1:
                return found[0]
            if found:
                # Several tenants fit, and nothing decides between them.
                break
        raise TokenRefused

    def _checked(self, issuer: Issuer, claims: Mapping[str, Any]) -> tuple[str, float]:
        """Return the subject, and the time at which the token ends. Raises TokenRefused."""
        now_s = self._clock()
        expires_at = _seconds(claims.get("exp"))
        if expires_at <= now_s - LEEWAY_S:
            raise TokenRefused
        for name in ("nbf", "iat"):
            if name in claims and _seconds(claims[name]) > now_s + LEEWAY_S:
                raise TokenRefused
        for name, wanted in issuer.required_claims.items():
            value = claims.get(name)
            if value != wanted and not (isinstance(value, list) and wanted in value):
                raise TokenRefused
        who = claims.get(issuer.subject_claim)
        if not isinstance(who, str) or not 0 < len(who) <= MAX_SUBJECT or not who.isprintable():
            raise TokenRefused
        return f"issuer:{issuer.name}#{who}", expires_at


def _kid(header: dict[str, Any]) -> str | None:
    return jws.kid_of(header) if "kid" in header else None


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise TokenRefused
    return float(value)


def _signed(token: bytes, key: Any, algorithm: str) -> bool:
    try:
        # Issuers put more fields into a header than we know; `crit` was refused when it was read.
        # Some still call Ed25519 by its old name EdDSA, which is accepted if it is configured.
        registry = jose.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            jose.deserialize_compact(token, key, registry=registry)
    except (JoseError, ValueError, TypeError):
        return False
    return True
