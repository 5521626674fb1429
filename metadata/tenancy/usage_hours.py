"""The usage of tenants, hour by hour: read, and deleted by age."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Database
from metadata.errors import BadPageToken
from metadata.models import UsageHourRow
from metadata.types import Page

_VERSION = b"3"
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class UsageHour:
    """`value` of one metric in the hour that begins at `hour`, UTC."""

    hour: datetime
    metric: str
    value: float


class UsageHours:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        tenant_id: bytes,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        metric: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[UsageHour]:
        """Return hours that begin in [start, end), by hour and metric. Raises BadPageToken."""
        key = tuple_(UsageHourRow.hour, UsageHourRow.metric)
        statement = (
            select(UsageHourRow)
            .where(UsageHourRow.tenant_id == tenant_id)
            .order_by(UsageHourRow.hour, UsageHourRow.metric)
            .limit(page_size + 1)
        )
        if start is not None:
            statement = statement.where(UsageHourRow.hour >= start)
        if end is not None:
            statement = statement.where(UsageHourRow.hour < end)
        if metric is not None:
            statement = statement.where(UsageHourRow.metric == metric)
        if page_token is not None:
            statement = statement.where(key > _after(page_token))

        async def work(session: AsyncSession) -> Page[UsageHour]:
            found = [_usage(row) for row in await session.scalars(statement)]
            if len(found) <= page_size:
                return Page(tuple(found), None)
            kept = tuple(found[:page_size])
            return Page(kept, _token(kept[-1]))

        return await self._database.of(tenant_id).read(work)

    async def prune(self, older_than_s: float, limit: int) -> int:
        """Delete hours of all tenants that ended `older_than_s` ago, at most `limit`;
        return their number.
        """
        key = tuple_(UsageHourRow.tenant_id, UsageHourRow.hour, UsageHourRow.metric)
        old = (
            select(UsageHourRow.tenant_id, UsageHourRow.hour, UsageHourRow.metric)
            .where(UsageHourRow.hour < func.now() - _HOUR - timedelta(seconds=older_than_s))
            .order_by(UsageHourRow.hour)
            .limit(limit)
        )
        statement = delete(UsageHourRow).where(key.in_(old)).returning(UsageHourRow.hour)
        # The session has none of these rows; else it asks for their keys too, in any order.
        statement = statement.execution_options(synchronize_session=False)

        async def work(session: AsyncSession) -> int:
            return len((await session.execute(statement)).all())

        return await self._database.platform.write(work)


def _token(last: UsageHour) -> str:
    text = f"{int(last.hour.timestamp())} {last.metric}"
    return urlsafe_b64encode(_VERSION + text.encode()).decode()


def _after(page_token: str) -> tuple[datetime, str]:
    try:
        raw = urlsafe_b64decode(page_token.encode("ascii"))
        seconds, space, metric = raw[1:].decode().partition(" ")
        hour = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadPageToken("the page token is not one of ours") from error
    if raw[:1] != _VERSION or not space or "\0" in metric:
        raise BadPageToken("the page token is not one of ours")
    return hour, metric


def _usage(row: UsageHourRow) -> UsageHour:
    return UsageHour(row.hour, row.metric, float(row.value))
