"""Tokens of runs of exports, which may read the topics of the export and their schemas, nothing
else.

They are access tokens of ours without a client: the process that has a run gets one with its lease,
and a new one with each renewal. All tokens of one attempt have the same id, so one revocation ends
them with the attempt. No other token can have that id, which is a hash of the attempt's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import structlog

from auth.access_tokens import AccessTokens
from auth.permissions import Permission
from metadata.errors import MetadataError
from metadata.tenancy.revoked_tokens import RevokedToken, RevokedTokenRepository

LASTS_S = 3_600
CLIENT_ID = "export_runs"
"""Client id that introspection shows for these tokens."""
MAX_SCHEMAS = 50
"""Most schemas in a token, which is sent with every request."""
_log = structlog.get_logger("packetboat.exports")


class Attempt(NamedTuple):
    """An attempt of a run; `run_uid` is 16 bytes."""

    tenant_id: bytes
    run_uid: bytes
    attempt: int

    @property
    def jti(self) -> bytes:
        return hashlib.sha256(b"export-run" + self.run_uid + b"%d" % self.attempt).digest()[:16]


class RunToken(NamedTuple):
    text: str
    expires_at: datetime


class RunTokens:
    """The issuer of the tokens of runs, which also revokes them."""

    def __init__(
        self,
        tokens: AccessTokens,
        revoked: RevokedTokenRepository,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Make an issuer; `catch_up` reads the change feed, for the verifiers in this process."""
        self._tokens = tokens
        self._revoked = revoked
        self._catch_up = catch_up

    def issue(
        self, attempt: Attempt, export: str, topics: str, schemas: Sequence[str] = ()
    ) -> RunToken:
        """Issue a token; `topics` is a name or a pattern. Raises NoSigningKey."""
        text, said = self._tokens.issue(
            tenant_id=attempt.tenant_id,
            subject=f"export:{export}",
            client_id=CLIENT_ID,
            scope=frozenset({Permission.READ}),
            topics=topics,
            schemas=tuple(sorted(schemas)[:MAX_SCHEMAS]),
            jti=attempt.jti,
            lasts_s=LASTS_S,
        )
        return RunToken(text, datetime.fromtimestamp(said.expires_at, UTC))

    async def end(self, attempt: Attempt) -> None:
        """Revoke the tokens of an attempt.

        This process refuses them once this returns, also one that it has just accepted; other
        processes do when they read the change feed. If the revocation cannot be written or read
        back, a warning is logged, and the tokens end later, at the latest when they expire.
        """
        until = datetime.now(UTC) + timedelta(seconds=LASTS_S)
        try:
            await self._revoked.revoke(RevokedToken(attempt.jti, attempt.tenant_id, until))
            await self._catch_up()
        except MetadataError as error:
            _log.warning("the token of a run that is over holds on", error=str(error))
