"""Events of endpoints: each once in its topic, and none lost to a topic that is away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec

from metadata.errors import NotFound
from metadata.tenancy.audit import AuditEntry
from metadata.types import Subscription
from outbox import Item, TopicFull
from store_nodes.errors import QueueSealed
from subscribe_forwarder.push.events import EndpointEvents
from tests.unit.subscribe_forwarder.push_support import push_subscription

AT = datetime(2026, 5, 1, tzinfo=UTC)
HOOK = push_subscription(events_topic="endpoints")


def entry(number: int, turn: str = "disabled") -> AuditEntry:
    return AuditEntry(
        tenant_id=HOOK.tenant_id,
        id=bytes([number]) * 16,
        actor="platform",
        action=f"subscriptions.push.{turn}",
        resource="subscriptions/reader",
        status=200,
        request_id="",
        detail={"state": turn, "reason": "it is bad"},
        at=AT,
    )


class Fakes:
    """Fakes of the audit log and the topic. The `errors` come first, one for each try."""

    def __init__(self, *entries: AuditEntry) -> None:
        self.entries = list(entries)
        self.errors: list[Exception] = []
        self.stored: dict[bytes, Any] = {}
        self.refreshed: list[bool] = []
        self.events = EndpointEvents(self, self, self)  # type: ignore[arg-type]

    async def transitions(self, subscription: Subscription, since: datetime) -> list[AuditEntry]:
        return list(self.entries)

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Any:
        self.refreshed.append(refresh)
        return SimpleNamespace(name=name)

    async def append(self, topic: Any, items: Sequence[Item]) -> list[Any]:
        if self.errors:
            raise self.errors.pop(0)
        for item in items:
            self.stored.setdefault(item.name, msgspec.json.decode(item.message.data))
        return []

    async def tell(self, told: frozenset[bytes] = frozenset()) -> frozenset[bytes]:
        return await self.events.tell(HOOK, told)


async def test_what_an_event_says() -> None:
    fakes = Fakes(entry(1))
    assert await fakes.tell() == {entry(1).id}
    (event,) = fakes.stored.values()
    assert event == {
        "id": "01" * 16,
        "type": "packetboat.endpoint.disabled",
        "subscription": "reader",
        "state": "disabled",
        "reason": "it is bad",
        "at": "2026-05-01T00:00:00Z",
    }


async def test_each_once_by_its_name_whatever_the_order_of_ids() -> None:
    fakes = Fakes(entry(5))
    told = await fakes.tell()
    fakes.entries.append(entry(2, "enabled"))
    told = await fakes.tell(told)
    assert [event["type"].rpartition(".")[2] for event in fakes.stored.values()] == [
        "disabled",
        "enabled",
    ]
    assert await fakes.tell() == told, "by somebody who knows of none"
    assert len(fakes.stored) == 2


async def test_a_topic_that_is_away_or_full_is_tried_again() -> None:
    fakes = Fakes(entry(1))
    for error in (NotFound("topic", "endpoints"), TopicFull("topic-full", "")):
        fakes.errors = [error]
        assert await fakes.tell() == frozenset()
    fakes.refreshed.clear()
    fakes.errors = [QueueSealed("grown")]
    assert await fakes.tell() == {entry(1).id}
    assert fakes.refreshed == [False, True]


async def test_nothing_is_told_without_a_topic() -> None:
    fakes = Fakes(entry(1))
    assert HOOK.push is not None
    quiet = msgspec.structs.replace(
        HOOK, push=msgspec.structs.replace(HOOK.push, events_topic=None)
    )
    assert await fakes.events.tell(quiet, frozenset()) == frozenset()
    assert fakes.stored == {}
