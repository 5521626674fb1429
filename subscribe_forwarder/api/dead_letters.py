"""Lists and discards the dead letters of a subscription. It needs no ownership."""

from __future__ import annotations

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, read_body, respond, tenant_of
from edge.message_id import FORM_OFFSET, MessageId
from edge.problem import not_found
from metadata.catalog import Catalog
from metadata.errors import NotFound
from metadata.subscriptions.dead_letters import START, DeadLetterRepository, StoredDeadLetter
from metadata.types import Subscription
from openapi import dead_letters as contract
from outbox.dead_letter import why_not_written
from store_nodes.client import StoreClient
from subscribe_forwarder.api import status
from subscribe_forwarder.api.dead_letter_bodies import (
    MAX_BODY_BYTES,
    discard_of,
    filter_of,
    page_of,
    uid_in_path,
    uids_of,
)
from subscribe_forwarder.api.dead_letter_search import (
    MAX_EXAMINED_PER_PAGE,
    Search,
    place_of,
    token_of,
)
from subscribe_forwarder.delivery.reading.staged import Where

NO_STORE = [(b"cache-control", b"no-store")]
_encode = msgspec.json.encode


class DeadLetters:
    def __init__(self, catalog: Catalog, store: StoreClient, letters: DeadLetterRepository) -> None:
        self._catalog = catalog
        self._store = store
        self._letters = letters

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listDeadLetters"], self.page),
            Route(contract.OPERATIONS["getDeadLetter"], self.get),
            Route(contract.OPERATIONS["discardDeadLetters"], self.discard),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """List the letters, oldest first, and count those that could not be written yet."""
        query = await page_of(scope)
        subscription = await self._subscription(scope)
        search = Search(self._letters, subscription.tenant_id, subscription.uid, query.state)
        after = place_of(query.page_token)
        found = await search.page(
            query.filter, after or START, query.page_size, MAX_EXAMINED_PER_PAGE
        )
        waiting = await self._letters.waiting(subscription.tenant_id, subscription.uid)
        listing = contract.DeadLetterPage(
            [view(letter) for letter in found.letters],
            found.examined,
            contract.Undelivered(waiting.messages, why_not_written(waiting.detail)),
            token_of(found.next_place),
        )
        await respond(send, 200, _encode(listing), headers=NO_STORE)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show a letter with its message; null if the dead-letter topic has it no more."""
        text = path_param(scope, "letter")
        uid = uid_in_path("dead-letter", text)
        subscription = await self._subscription(scope)
        try:
            letter = await self._letters.get(subscription.tenant_id, subscription.uid, uid)
        except NotFound:
            raise not_found("dead-letter", text) from None
        fragment = await self._stored(subscription, letter)
        message = b"null" if fragment is None else b"{%b}" % fragment
        body = _encode(view(letter))
        await respond(send, 200, b'%b,"message":%b}' % (body[:-1], message), headers=NO_STORE)

    async def discard(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Discard letters; their messages stay in the dead-letter topic."""
        body = discard_of(await read_body(scope, receive, MAX_BODY_BYTES))
        uids, wanted = uids_of(body), await filter_of(scope, body)
        subscription = await self._subscription(scope)
        key = subscription.tenant_id, subscription.uid
        complete = True
        if uids is not None:
            discarded = await self._letters.discard(*key, uids)
        else:
            discarded = 0
            async for found in Search(self._letters, *key).pages(wanted):
                chosen = [letter.uid for letter in found.letters]
                discarded += await self._letters.discard(*key, chosen) if chosen else 0
                complete = found.next_place is None
        answer = contract.Discarded(discarded, complete)
        await respond(send, 200, _encode(answer), headers=NO_STORE)

    async def _stored(self, subscription: Subscription, letter: StoredDeadLetter) -> bytes | None:
        try:
            topic = await self._catalog.topic_by_uid(
                subscription.tenant_id, letter.letter_topic_uid
            )
        except NotFound:
            return None
        where = Where(letter.letter_partition, letter.letter_offset, letter.letter_lane)
        return await status.message(self._store, topic, where)

    async def _subscription(self, scope: Scope) -> Subscription:
        return await self._catalog.subscription(tenant_of(scope), path_param(scope, "name"))


def view(letter: StoredDeadLetter) -> contract.DeadLetter:
    """Return a dead letter as the API shows it."""
    letter_id = MessageId(
        FORM_OFFSET,
        letter.letter_topic_uid,
        letter.letter_partition,
        letter.letter_lane,
        letter.letter_offset,
    )
    return contract.DeadLetter(
        id=letter.uid.hex(),
        state=letter.state,
        reason=letter.reason,
        detail=letter.detail,
        attempts=letter.attempts,
        first_at=letter.first_at,
        last_at=letter.last_at,
        dead_at=letter.dead_at,
        message_id=letter.message_id,
        partition=letter.partition,
        offset=letter.offset,
        publish_time=letter.publish_time,
        key=letter.key,
        attributes=dict(letter.attributes),
        content_type=letter.content_type,
        size_bytes=letter.size_bytes,
        letter_id=str(letter_id),
        redrive_id=None if letter.redrive_uid is None else letter.redrive_uid.hex(),
    )
