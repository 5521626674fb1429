"""API keys, which are sent as they are with each request, and of which only hashes are stored.

A key is found by its public part, and its secret is compared with each that is live, in a time that
does not depend on which matches. Its scopes are its whole authority.

The principal's `credential` is `key:` and the key's public part.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import structlog

from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.known import Known
from auth.policies import BadGrant, parse_scope
from auth.principal import Grant, Principal
from metadata.errors import MetadataError
from metadata.tenancy.api_keys import ApiKey, ApiKeyRepository
from metadata.tenancy.credentials import matches
from metadata.types import Change, ChangeKind

PREFIX = b"pbk_"
TOUCH_EVERY_S = 10.0
MAX_NOTED = 10_000
"""Keys whose use is not written yet, at most; beyond these, the use of others is not noted."""
_FORM = re.compile(r"pbk_([A-Za-z0-9]{12})_[A-Za-z0-9_-]{43}")
_log = structlog.get_logger("packetboat.identity")
Touch = Callable[[Sequence[tuple[bytes, bytes, datetime]]], Awaitable[None]]


def _now() -> datetime:
    return datetime.now(UTC)


class LastUses:
    """The times at which credentials were last used, written some seconds later and many at
    once.
    """

    def __init__(self, touch: Touch, *, every_s: float = TOUCH_EVERY_S) -> None:
        self._touch = touch
        self._every_s = every_s
        self._noted: dict[tuple[bytes, bytes], datetime] = {}

    def note(self, tenant_id: bytes, uid: bytes, at: datetime) -> None:
        if len(self._noted) < MAX_NOTED or (tenant_id, uid) in self._noted:
            self._noted[tenant_id, uid] = at

    async def write(self) -> None:
        """Write the noted times; those that cannot be written are kept for the next time."""
        noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            await self._touch([(*key, at) for key, at in noted.items()])
        except MetadataError as error:
            self._noted = noted | self._noted
            _log.debug("the last uses of credentials wait", error=str(error))

    async def run(self) -> None:
        """Write the noted times regularly, until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.write()


class ApiKeyVerifier:
    """A `TokenVerifier`. `on_changes` is a listener of the change feed."""

    def __init__(
        self,
        keys: ApiKeyRepository,
        directory: ClientDirectory,
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._keys = Known[str, ApiKey](keys.by_key_id)
        self._directory = directory
        self._clock = clock
        self.last_uses = LastUses(keys.touch)

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused, TenantSuspended or VerifierUnavailable."""
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise TokenRefused from None
        form = _FORM.fullmatch(text)
        if form is None:
            raise TokenRefused
        key = await self._keys.get(form[1])
        now = self._clock()
        if not matches(key.secrets if key is not None else (), text, now) or key is None:
            raise TokenRefused
        until = _until(key, text, now)
        if key.state != "active" or (until is not None and until <= now):
            raise TokenRefused
        await self._directory.require_served(key.tenant_id)
        self.last_uses.note(key.tenant_id, key.uid, now)
        return Principal(
            tenant_id=key.tenant_id,
            subject=f"key:{key.name}",
            grants=scoped(key.scopes),
            credential=f"key:{key.key_id}",
            expires_at=None if until is None else until.timestamp(),
        )

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._keys.forget(lambda _: True)
            return
        keys = {change.uid for change in changes if change.kind is ChangeKind.KEY}
        tenants = {change.tenant_id for change in changes if change.kind is ChangeKind.TENANT}
        if keys or tenants:
            self._keys.forget(lambda key: key.uid in keys or key.tenant_id in tenants)


def scoped(scopes: Sequence[str]) -> frozenset[Grant]:
    """Return the grants of scopes; a scope that nobody knows grants nothing."""
    grants = set()
    for scope in scopes:
        try:
            grants.add(parse_scope(scope))
        except BadGrant:
            continue  # written by a later version
    return frozenset(grants)


def _until(key: ApiKey, text: str, now: datetime) -> datetime | None:
    """Return the end of the key, or of the secret that was sent, if that is sooner."""
    ends = [secret.expires_at for secret in key.secrets if matches([secret], text, now)]
    return min((end for end in (key.expires_at, *ends) if end is not None), default=None)
