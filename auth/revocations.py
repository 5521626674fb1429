"""The tokens that were revoked before their time, known in every process without a query for each.

All of them are in memory: read once, and then reported by the change feed. So a revocation takes
effect in every process that reaches Postgres as soon as the feed does. A process that does not
reach it goes on with the revocations that it knows: it must, to serve while Postgres is down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from auth.errors import VerifierUnavailable
from metadata.errors import MetadataError
from metadata.tenancy.revoked_tokens import RevokedTokenRepository
from metadata.tenancy.signing_keys import NOBODY
from metadata.types import Change, ChangeKind

MOST_A_TOKEN_LASTS_S = 86_400.0
"""Longest life of our tokens, for which a revocation from the feed is remembered."""
_SWEEP_EVERY_S = 60.0


class Revocations:
    """The set of revoked tokens.

    `on_changes` is a listener of the change feed, added before the first question is asked.
    """

    def __init__(
        self, repository: RevokedTokenRepository, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._repository = repository
        self._clock = clock
        self._until_s: dict[bytes, float] = {}
        self._known = False
        self._loading = asyncio.Lock()
        self._swept_at_s = clock()

    async def includes(self, jti: bytes) -> bool:
        """Return whether a token is revoked.

        Raises VerifierUnavailable while the revoked tokens could never be read.
        """
        if not self._known:
            await self._load()
        return jti in self._until_s

    def add(self, jti: bytes) -> None:
        """Add a revoked token, which takes effect in this process at once."""
        self._until_s[jti] = self._clock() + MOST_A_TOKEN_LASTS_S

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._known = False
        for change in changes:
            if change.kind is ChangeKind.TOKEN and change.uid != NOBODY:
                self.add(change.uid)
        self._sweep()

    async def _load(self) -> None:
        async with self._loading:
            if self._known:
                return
            try:
                revoked = await self._repository.all()
            except MetadataError as error:
                raise VerifierUnavailable("revoked tokens are not known yet") from error
            # Tokens that the feed reported in the meantime stay, since they may be newer than the
            # rows.
            for token in revoked:
                self._until_s.setdefault(token.jti, token.expires_at.timestamp() + 60.0)
            self._known = True

    def _sweep(self) -> None:
        now_s = self._clock()
        if now_s - self._swept_at_s >= _SWEEP_EVERY_S:
            self._swept_at_s = now_s
            self._until_s = {j: until for j, until in self._until_s.items() if until > now_s}
