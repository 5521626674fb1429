"""The audit's rows in a real Postgres."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.tenancy.redaction import members_of
from metadata.database import Database
from metadata.errors import BadPageToken, MetadataError
from metadata.ids import new_uid
from metadata.models import AuditRow
from metadata.tenancy.audit import AuditEntry, AuditFilter, AuditLog
from metadata.types import Page

MINE, OTHER = new_uid(), new_uid()


def entry(number: int = 0, tenant_id: bytes = MINE, **different: Any) -> AuditEntry:
    made = AuditEntry(
        tenant_id=tenant_id,
        id=(1000 + number).to_bytes(16, "big"),
        actor="client:ann",
        action="createTopic",
        resource=f"topics/t{number}",
        status=None,
        request_id=f"ask-{number}",
    )
    return replace(made, **different)


@pytest.fixture
def log(database: Database) -> AuditLog:
    return AuditLog(database)


async def found(log: AuditLog, **wanted: Any) -> list[str]:
    page: Page[AuditEntry] = await log.page(MINE, AuditFilter(**wanted))
    return [each.resource for each in page.items]


async def test_a_row_gets_its_status(log: AuditLog) -> None:
    await log.append([entry()])
    (begun,) = (await log.page(MINE, AuditFilter())).items
    assert begun.status is None
    await log.finish(entry(), 201)
    (done,) = (await log.page(MINE, AuditFilter())).items
    assert done == replace(begun, status=201)
    assert done.at is not None


async def test_what_happened_is_not_changed_by_a_tenant(database: Database) -> None:
    """Nor deleted: a session of the tenant has no right to."""
    await AuditLog(database).append([entry()])

    async def change(session: Any) -> None:
        row = await session.get(AuditRow, (MINE, entry().id))
        row.actor = "client:bob"

    async def remove(session: Any) -> None:
        await session.delete(await session.get(AuditRow, (MINE, entry().id)))

    for work in (change, remove):
        with pytest.raises(MetadataError):
            await database.of(MINE).write(work)


async def test_filters(log: AuditLog) -> None:
    await log.append([entry(0, resource="topics/a"), entry(1, resource="topics/a/subscriptions/s")])
    await log.append([entry(2, resource="topics/ab", actor="key:ci"), entry(3, action="x")])
    await log.append([entry(4, tenant_id=OTHER)])
    assert await found(log, resource="topics/a") == ["topics/a/subscriptions/s", "topics/a"]
    assert await found(log, resource="topics/_") == []
    assert await found(log, actor="key:ci") == ["topics/ab"]
    assert await found(log, action="x", oldest_first=True) == ["topics/t3"]
    (one,) = (await log.page(OTHER, AuditFilter())).items
    assert one.at is not None
    assert len(await found(log, start=one.at - timedelta(hours=1))) == 4
    assert await found(log, end=one.at - timedelta(hours=1)) == []


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_pages_have_every_row_once(log: AuditLog, *, oldest_first: bool) -> None:
    await log.append([entry(number) for number in range(7)])
    wanted, token, seen = AuditFilter(oldest_first=oldest_first), None, []
    while True:
        page = await log.page(MINE, wanted, page_size=3, page_token=token)
        seen += [each.resource for each in page.items]
        token = page.next_token
        if token is None:
            break
    expected = [f"topics/t{number}" for number in range(7)]
    assert seen == (expected if oldest_first else expected[::-1])


@pytest.mark.parametrize("token", ["", "!", "AAAA", "1abc", "é"])
async def test_tokens_of_others_are_refused(log: AuditLog, token: str) -> None:
    with pytest.raises(BadPageToken):
        await log.page(MINE, AuditFilter(), page_token=token)


async def test_rows_go_by_age(log: AuditLog, database: Database) -> None:
    await log.append([entry(number) for number in range(5)])

    async def age(session: Any) -> None:
        for number in range(3):
            row = await session.get(AuditRow, (MINE, entry(number).id))
            row.at = row.at - timedelta(days=2)

    await database.platform.write(age)
    assert await log.prune(86_400, 2) == 2
    assert await log.prune(86_400, 2) == 1
    assert await log.prune(86_400, 2) == 0
    assert await found(log, oldest_first=True) == ["topics/t3", "topics/t4"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"\\u0000"}',
        b'{"\\u0000":1}',
        b'{"a":1e308}',
        b'{"a":123456789012345678901234567890}',
        '{"a":"\N{SNOWMAN}"}'.encode(),
    ],
)
async def test_whatever_was_sent_can_be_kept(log: AuditLog, body: bytes) -> None:
    await log.append([entry(detail={"members": members_of(body)})])
    assert len((await log.page(MINE, AuditFilter())).items) == 1
