"""Makes, lists and cancels redrives; the scheduler does the work."""

from __future__ import annotations

from typing import Any

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid, not_found
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.subscriptions.dead_letters import (
    DeadLetterPosition,
    DeadLetterRepository,
    StoredDeadLetter,
)
from metadata.subscriptions.redrives import MAX_UNFINISHED, Redrive, RedriveRepository, RedriveSpec
from metadata.types import Subscription
from openapi import dead_letters as contract
from openapi.common import PAGE_SIZE
from subscribe_forwarder.api.dead_letter_bodies import (
    MAX_BODY_BYTES,
    filter_of,
    redrive_of,
    uid_in_path,
)
from subscribe_forwarder.api.dead_letter_search import Search, place_of, token_of
from subscribe_forwarder.api.dead_letters import NO_STORE
from subscribe_forwarder.api.dead_letters import view as letter_view

SAMPLE = 5
_encode = msgspec.json.encode


class Matched:
    """The letters that a redrive would take, as far as they were counted."""

    def __init__(self) -> None:
        self.count = 0
        self.examined = 0
        self.complete = True
        self.sample: list[StoredDeadLetter] = []


class Redrives:
    def __init__(
        self, catalog: Catalog, letters: DeadLetterRepository, redrives: RedriveRepository
    ) -> None:
        self._catalog = catalog
        self._letters = letters
        self._redrives = redrives

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["redriveDeadLetters"], self.create),
            Route(contract.OPERATIONS["listRedrives"], self.page),
            Route(contract.OPERATIONS["getRedrive"], self.get),
            Route(contract.OPERATIONS["cancelRedrive"], self.cancel),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 202; or 200 with the letters that a dry run found."""
        body = redrive_of(await read_body(scope, receive, MAX_BODY_BYTES))
        spec, wanted = body.spec(), await filter_of(scope, body)
        if spec.destination is not None:
            await caller_of(scope).require("publish", "topic", spec.destination)
        subscription = await self._subscription(scope)
        await self._check_destination(subscription, spec)
        key = subscription.tenant_id, subscription.uid
        if body.dry_run or wanted is not None:
            matched = Matched()
            if spec.uids is not None:
                await self._match_uids(matched, key, spec.uids)
            else:
                async for found in Search(self._letters, *key).pages(wanted):
                    matched.count += len(found.letters)
                    matched.examined += found.examined
                    matched.complete = found.next_place is None
                    matched.sample += found.letters[: SAMPLE - len(matched.sample)]
            if body.dry_run:
                found_all = contract.DryRun(
                    matched.count,
                    matched.examined,
                    matched.complete,
                    [letter_view(letter) for letter in matched.sample],
                )
                await respond(send, 200, _encode(found_all), headers=NO_STORE)
                return
            total = matched.count
        else:
            total = await self._letters.open_count(*key)
        try:
            redrive = await self._redrives.create(*key, spec, total)
        except Conflict as error:
            raise Problem.of(
                "too-many-redrives",
                f"{MAX_UNFINISHED} redrives of this subscription are not finished; wait for one, or"
                " cancel it.",
            ) from error
        location = f"/subscriptions/{subscription.name}/redrives/{redrive.uid.hex()}"
        await respond(
            send, 202, _encode(view(redrive)), headers=[(b"location", location.encode("ascii"))]
        )

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """List the redrives, newest first."""
        query = Query(scope)
        page_size = query.integer(PAGE_SIZE)
        subscription = await self._subscription(scope)
        before = place_of(query.page_token())
        found = await self._redrives.page(
            subscription.tenant_id, subscription.uid, before=before, limit=page_size + 1
        )
        shown = found[:page_size]
        last = (
            DeadLetterPosition(shown[-1].created_at, shown[-1].uid)
            if len(found) > len(shown)
            else None
        )
        listing = contract.RedrivePage([view(redrive) for redrive in shown], token_of(last))
        await respond(send, 200, _encode(listing), headers=NO_STORE)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        uid = uid_in_path("redrive", path_param(scope, "redrive"))
        subscription = await self._subscription(scope)
        try:
            redrive = await self._redrives.get(subscription.tenant_id, subscription.uid, uid)
        except NotFound:
            raise not_found("redrive", uid.hex()) from None
        await respond(send, 200, _encode(view(redrive)), headers=NO_STORE)

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Cancel a redrive. Letters that it redrove stay redriven."""
        uid = uid_in_path("redrive", path_param(scope, "redrive"))
        subscription = await self._subscription(scope)
        try:
            redrive = await self._redrives.cancel(subscription.tenant_id, subscription.uid, uid)
        except NotFound:
            raise not_found("redrive", uid.hex()) from None
        await respond(send, 200, _encode(view(redrive)), headers=NO_STORE)

    async def _match_uids(
        self, matched: Matched, key: tuple[bytes, bytes], uids: list[bytes] | Any
    ) -> None:
        found = await self._letters.several(*key, uids)
        chosen = [letter for letter in found if letter.state == "open"]
        matched.count, matched.examined = len(chosen), len(found)
        matched.sample = chosen[:SAMPLE]

    async def _check_destination(self, subscription: Subscription, spec: RedriveSpec) -> None:
        if spec.destination is None:
            return
        try:
            await self._catalog.topic(subscription.tenant_id, spec.destination)
        except NotFound:
            detail = f"there is no topic {spec.destination!r}"
            raise invalid("The body does not fit.", [FieldError("to", detail)]) from None

    async def _subscription(self, scope: Scope) -> Subscription:
        return await self._catalog.subscription(tenant_of(scope), path_param(scope, "name"))


def view(redrive: Redrive) -> contract.Redrive:
    """Return a redrive as the API shows it."""
    return contract.Redrive(
        redrive_id=redrive.uid.hex(),
        state=redrive.state,
        detail=redrive.detail,
        filter=redrive.filter,
        to=redrive.destination or contract.TO_SUBSCRIPTION,
        rate=redrive.rate,
        total=redrive.total,
        redriven=redrive.redriven,
        failed=redrive.failed,
        created_at=redrive.created_at,
        updated_at=redrive.updated_at,
    )
