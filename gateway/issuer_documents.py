"""Documents that tenants' issuers publish, fetched behind the guard of the tenant that
trusts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aiohttp

from auth.issuer_keys import IssuerUnreachable
from edge.egress.guard import EgressDenied, Guard
from edge.egress.session import BodyTooLong, check_url, guarded_session, read_capped
from metadata.errors import MetadataError

TIMEOUT_S = 5.0
"""Seconds from the look-up of the name to the last byte."""
MAX_BYTES = 256 * 1024
GuardOf = Callable[[bytes], Awaitable[Guard]]


class IssuerDocuments:
    """A connection for each: they are asked for every ten minutes at most."""

    def __init__(
        self,
        guard_of: GuardOf,
        *,
        proxy: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._guard_of = guard_of
        self._proxy = proxy
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._max_bytes = max_bytes

    async def fetch(self, tenant_id: bytes, url: str) -> bytes:
        """Return the body of a 200. Raises IssuerUnreachable; redirects are not followed."""
        try:
            guard = await self._guard_of(tenant_id)
            check_url(guard, url)
            async with (
                guarded_session(
                    guard, limit=1, proxy=self._proxy, timeout=self._timeout
                ) as session,
                session.get(url, headers={"Accept": "application/json"}) as answer,
            ):
                if answer.status != 200:
                    raise IssuerUnreachable(f"{url} answered {answer.status}")
                return await read_capped(answer, self._max_bytes)
        except TimeoutError:
            raise IssuerUnreachable(f"{url} did not answer in {self._timeout.total:g} s") from None
        except (EgressDenied, BodyTooLong, aiohttp.ClientError, MetadataError, OSError) as error:
            raise IssuerUnreachable(f"{url}: {error or type(error).__name__}") from error
