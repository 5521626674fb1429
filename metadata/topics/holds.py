"""The losses with a topic, besides unacked messages, as Postgres knows them.

Exports and snapshots hold the history of their topic by pins. An open dead letter is lost with the
subscription that gave the message up, since its listing and its redrive go with that, and with the
topic that stores its body.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.database import Connection, Database
from openapi.common import HoldKind

_PINS = """
SELECT pins.kind, coalesce(exports.name, snapshots.name) AS name, pins.partition, pins.lane,
    pins.pinned_offset
FROM pins
LEFT JOIN exports ON exports.tenant_id = pins.tenant_id AND exports.uid = pins.holder
LEFT JOIN snapshots ON snapshots.tenant_id = pins.tenant_id AND snapshots.uid = pins.holder
WHERE pins.tenant_id = $1 AND pins.topic_uid = $2
    AND (pins.expires_at IS NULL OR pins.expires_at > now())
    AND coalesce(exports.name, snapshots.name) IS NOT NULL
ORDER BY pins.kind, name, pins.partition, pins.lane
"""
_OPEN_LETTERS = """
SELECT subscriptions.name, count(*) AS letters
FROM dead_letters
JOIN subscriptions ON subscriptions.tenant_id = dead_letters.tenant_id
    AND subscriptions.uid = dead_letters.subscription_uid
WHERE dead_letters.tenant_id = $1 AND dead_letters.state = 'open'
    AND (dead_letters.letter_topic_uid = $2 OR subscriptions.topic_uid = $2)
GROUP BY subscriptions.name
ORDER BY subscriptions.name
"""


class Pin(NamedTuple):
    """An export or a snapshot (`kind`) needs a lane from `offset` on."""

    kind: HoldKind
    name: str
    partition: int
    lane: int
    offset: int


class Held(NamedTuple):
    """The holds of a topic; `letters` are the open dead letters of each subscription, by
    its name.
    """

    pins: tuple[Pin, ...]
    letters: dict[str, int]


class HoldRepository:
    """Reads of one topic."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> Held:
        """Return the committed holds of a topic; of pins only those that have not expired."""

        async def work(connection: Connection) -> Held:
            pins = await connection.fetch(_PINS, tenant_id, topic_uid)
            letters = await connection.fetch(_OPEN_LETTERS, tenant_id, topic_uid)
            return Held(tuple(Pin(*row) for row in pins), {row[0]: row[1] for row in letters})

        return await self._database.of(tenant_id).transaction(work)
