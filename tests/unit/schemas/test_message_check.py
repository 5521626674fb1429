from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from edge.problem import Problem
from metadata.errors import MetadataUnavailable, NotFound
from metadata.topics.schemas import Schema, SchemaVersion
from metadata.types import Retention, Topic, TopicState
from schemas.message_check import VERSION_ATTRIBUTE, SchemaCheck
from store_nodes.record_batch import Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = Topic(
    tenant_id=bytes(16),
    uid=bytes(16),
    name="t",
    state=TopicState.ACTIVE,
    partitions=(),
    retention=Retention(),
    dedup_window_s=600,
    labels={},
    version=1,
    created_at=NOW,
    updated_at=NOW,
    schema="s",
)


class Source:
    """Versions of the one schema there is; the cache may be empty and Postgres away."""

    def __init__(self, *definitions: Any) -> None:
        self.definitions = [json.dumps(definition) for definition in definitions]
        self.cold = False
        self.away = False
        self.reads = 0

    def cached(self, tenant_id: bytes, name: str) -> Schema | None:
        return None if self.cold else self._schema()

    async def get(self, tenant_id: bytes, name: str) -> Schema:
        self.reads += 1
        if self.away:
            raise MetadataUnavailable("away")
        return self._schema()

    async def version(self, tenant_id: bytes, name: str, number: int) -> SchemaVersion:
        self.reads += 1
        if number > len(self.definitions):
            raise NotFound("schema", name)
        return SchemaVersion(number, self.definitions[number - 1], NOW)

    def _schema(self) -> Schema:
        number = len(self.definitions)
        latest = self.definitions[-1]
        return Schema(bytes(16), "s", "json_schema", "none", number, latest, 1, NOW, NOW)


def message(body: object, key: str | None = None, version: str | None = None) -> Message:
    attributes = None if version is None else {VERSION_ATTRIBUTE: version}
    return Message(json.dumps(body).encode(), "application/json", key, attributes)


async def status(check: SchemaCheck, sent: Message) -> int:
    try:
        await check.refuse(TOPIC, sent)
    except Problem as problem:
        return problem.status
    return 201


async def test_the_latest_version_counts_unless_another_is_named() -> None:
    source = Source({"type": "integer"}, {"type": "string"})
    check = SchemaCheck(source)
    assert await status(check, message("a")) == 201
    assert await status(check, message(1)) == 422
    assert await status(check, message("a", version="2")) == 201
    assert source.reads == 0, "all of it was cached"
    assert await status(check, message(1, version="1")) == 201
    for wrong in ("0", "3", "-1", "x", "", "²", "9" * 30):
        assert await status(check, message("a", version=wrong)) == 422
    source.definitions.append('{"type": "boolean"}')
    assert await status(check, message(True)) == 201


async def test_a_schema_that_cannot_be_read_refuses_before_anything_is_kept() -> None:
    source = Source({})
    check = SchemaCheck(source)
    assert await status(check, message(1)) == 201
    source.away = True
    assert await status(check, message(1)) == 201, "what is cached goes on"
    source.cold = True
    assert await status(check, message(1)) == 503
    with pytest.raises(Problem):
        await check.checked(TOPIC, [message(1)])
    source.away, source.definitions = False, ['{"type": "text"}']
    assert await status(check, message(1)) == 503


async def test_items_of_a_batch_are_judged_one_by_one_and_order_of_keys_is_kept() -> None:
    check = SchemaCheck(Source({"type": "integer"}))
    before = Problem(422, "invalid-request", "Invalid")
    entries = [
        message(1, "k"),
        before,
        message("x", "k"),
        message(2, "k"),
        message(3, "l"),
        message("y"),
        message(4),
    ]
    judged = await check.checked(TOPIC, entries)
    slugs = [one.slug if isinstance(one, Problem) else None for one in judged]
    assert slugs == [
        None,
        "invalid-request",
        "schema-violation",
        "preceding-item-failed",
        None,
        "schema-violation",
        None,
    ]


async def test_a_named_version_later_than_the_cached_ones_is_looked_for() -> None:
    """Found by the torture: a version that had just been answered was refused as unknown."""
    source = Source({"type": "integer"})
    stale = source._schema()
    source.definitions.append('{"type": "string"}')
    source.cached = lambda tenant_id, name: stale  # type: ignore[method-assign]
    check = SchemaCheck(source)
    assert await status(check, message("a", version="2")) == 201
    assert await status(check, message("a", version="3")) == 422
