"""A stream of backlogs: what they are, then each again when it has changed.

A subscription's line comes at most once a second, the first at once. A client that reads slowly
gets what is latest: nothing queues for it but the names of what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from edge.asgi import Receive, Send
from edge.departure import disconnected, ended_by
from edge.problem import Problem, not_found
from metadata.errors import MetadataError
from subscribe_forwarder.api.backlog_selection import Selected
from subscribe_forwarder.api.stream import MAX_SECONDS
from subscribe_forwarder.api.stream_lines import LineFormat, StreamResponse, utc_now
from subscribe_forwarder.api.stream_parts import DRAINING
from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs
from subscribe_forwarder.fleet.backlogs.pace import Pace
from subscribe_forwarder.fleet.backlogs.reported import Backlog
from subscribe_forwarder.fleet.backlogs.watch import Watch

INTERVAL_S = 1.0
FIRST_S = 1.0
"""Seconds the first lines wait for what other forwarders have to tell."""
LOOK_FOR_S = 0.2
"""Seconds after which a partition of which no forwarder has told may have no owner."""
LOOK_EVERY_S = 1.0
"""Names are looked up again no more often, however much is made and deleted."""
WRITE_LINES = 200


class BacklogRequest(NamedTuple):
    """A request for backlogs whose limits were checked."""

    min_messages: int
    heartbeat_s: float
    ends_after_s: float
    """Infinite: no end."""
    alone: str | None
    """The one subscription that it is about; the stream ends with it."""


class BacklogStream:
    """One response. `look` finds what it is about."""

    def __init__(
        self,
        backlogs: Backlogs,
        watch: Watch,
        look: Callable[[], Awaitable[Mapping[bytes, Selected]]],
        found: Mapping[bytes, Selected],
        request: BacklogRequest,
        lines: LineFormat,
    ) -> None:
        self._backlogs = backlogs
        self._watch = watch
        self._look = look
        self._selected = found
        self._request = request
        self._response = StreamResponse(lines)
        self._pace = Pace(INTERVAL_S)
        self._shown: dict[bytes, tuple[str, dict[str, Any]]] = {}
        """The last line of each subscription: its name, and the members of its JSON."""
        self._stale_names = False
        self._end: Problem | str | None = None
        self._loop = asyncio.get_running_loop()
        self._began_s = self._looked_s = self._loop.time()

    def look_again(self) -> None:
        """Subscriptions were made or deleted, or a topic has grown."""
        self._stale_names = True
        self._watch.woken.set()

    def drain(self) -> None:
        """Ends it, with a line that says so."""
        self._end = self._end or DRAINING
        self._response.stop_waiting()
        self._watch.woken.set()

    async def run(self, receive: Receive, send: Send) -> None:
        """Raises ClientGone."""
        gone = self._loop.create_task(disconnected(receive))
        gone.add_done_callback(lambda _: self._departed())
        self._follow(self._selected)
        try:
            await self._response.begin(send, self._state())
            await self._first(gone)
            for uid in self._selected:
                self._pace.changed(uid)
            while self._end is None:
                if gone.done():
                    self._end = ended_by(gone)
                    break
                await self._step()
            await self._response.finish(self._end)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    def _departed(self) -> None:
        """Stop waiting for writes: the client is gone, or has to go."""
        self._response.stop_waiting()
        self._watch.woken.set()

    async def _first(self, gone: asyncio.Future[None]) -> None:
        """Waits until everything is known, within bounds."""
        until_s = self._began_s + min(FIRST_S, self._request.ends_after_s)
        look_s = self._began_s + LOOK_FOR_S
        while self._end is None and not gone.done():
            if all(self._watch.view(uid).complete for uid in self._selected):
                return
            self._watch.woken.clear()
            if await self._woken_until(min(look_s, until_s)):
                continue
            if look_s >= until_s:
                return
            look_s = until_s
            await self._backlogs.look_for_owners(self._watch.wanted.values())

    async def _step(self) -> None:
        """Write the lines that are due now, or wait."""
        now_s = self._loop.time()
        if now_s - self._began_s >= self._request.ends_after_s:
            self._end = MAX_SECONDS
            return
        if self._stale_names and now_s - self._looked_s >= LOOK_EVERY_S:
            await self._select_again(now_s)
        for uid in self._watch.take():
            self._pace.changed(uid)
        due = self._pace.due(now_s)
        if due:
            await self._write(due)
        elif now_s - self._response.wrote_s >= self._request.heartbeat_s:
            await self._response.heartbeat(self._state())
        elif self._end is None:
            await self._woken_until(self._next_s())

    def _next_s(self) -> float:
        due_s = [
            self._began_s + self._request.ends_after_s,
            self._response.wrote_s + self._request.heartbeat_s,
        ]
        pace_s = self._pace.next_s()
        if pace_s is not None:
            due_s.append(pace_s)
        if self._stale_names:
            due_s.append(self._looked_s + LOOK_EVERY_S)
        return min(due_s)

    async def _woken_until(self, until_s: float) -> bool:
        try:
            async with asyncio.timeout_at(until_s):
                await self._watch.woken.wait()
        except TimeoutError:
            return False
        return True

    async def _select_again(self, now_s: float) -> None:
        self._looked_s = now_s
        self._stale_names = False
        try:
            selected = await self._look()
        except MetadataError:
            self._stale_names = True
            return
        except Problem as problem:
            self._end = self._end or problem
            return
        before = self._selected
        self._follow(selected)
        for uid in {*before, *selected}:
            if before.get(uid) != selected.get(uid):
                self._pace.changed(uid)
        if self._request.alone is not None and not selected:
            self._end = self._end or not_found("subscription", self._request.alone)

    def _follow(self, selected: Mapping[bytes, Selected]) -> None:
        self._selected = selected
        self._watch.follow({uid: one.wanted for uid, one in selected.items()})

    async def _write(self, uids: Iterable[bytes]) -> None:
        lines = [line for uid in self._in_order(uids) if (line := self._line(uid)) is not None]
        for at in range(0, len(lines), WRITE_LINES):
            await self._response.write(b"".join(lines[at : at + WRITE_LINES]))

    def _in_order(self, uids: Iterable[bytes]) -> list[bytes]:
        """Return the subscriptions in order: deleted ones, then by name.

        A subscription that was made again under its name comes after the old one.
        """

        def place(uid: bytes) -> tuple[bool, str]:
            one = self._selected.get(uid)
            return one is not None, "" if one is None else one.name

        return sorted(uids, key=place)

    def _line(self, uid: bytes) -> bytes | None:
        """Return the line of a subscription; None where there is nothing new to say."""
        lines, one = self._response.lines, self._selected.get(uid)
        name, shown = self._shown.get(uid, ("", None))
        if one is None:
            self._pace.forget(uid)
            if self._shown.pop(uid, None) is None:
                return None
            return lines.named(b"removed", {"subscription": name, "time": utc_now()})
        members = members_of(one, self._watch.view(uid))
        least = self._request.min_messages
        before = 0 if shown is None else shown["messages"]
        if members == shown or (least and max(before, members["messages"]) < least):
            return None
        self._shown[uid] = one.name, members
        return lines.named(b"backlog", {**members, "time": utc_now()})

    def _state(self) -> dict[str, object]:
        """Return the members of a heartbeat."""
        return {"subscriptions": len(self._selected)}


def members_of(one: Selected, backlog: Backlog) -> dict[str, Any]:
    """Return the JSON of a line."""
    return {
        "subscription": one.name,
        "messages": backlog.messages,
        "leased": backlog.leased,
        "waiting_pulls": backlog.waiting,
        "streams": backlog.streams,
        "delivered_per_second": backlog.delivered_per_s,
        "paused": backlog.paused or one.paused,
        "complete": backlog.complete,
        "partitions": [msgspec.structs.asdict(share) for share in backlog.shares],
    }
