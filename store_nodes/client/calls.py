"""Asks the leader, or any replica, until the deadline: the calls that are not appends.

Nearly all may be repeated: reads, and commands that change nothing more the second time. So a
command whose answer was lost is sent again, and only the deadline makes its outcome unknown.
Commands that name a version (compare_and_set, reconfigure) are repeated, too, but a conflict after
a lost answer may be with the command's own first transmission: its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from peering.rpc.frames import Buffer
from store_nodes.client.link import NodeLink
from store_nodes.errors import (
    Conflict,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    QueueTruncated,
    StoreError,
    Unavailable,
)
from store_nodes.transport import failures
from store_nodes.wire import Accepted, Failed, Head, Reply

if TYPE_CHECKING:
    from store_nodes.client.connections import Connections

RETRY_FIRST_S = 0.02
RETRY_MOST_S = 0.2
REPLICA_TIMEOUT_S = 1.0

MakeHead = Callable[[int, int], Head]
"""Makes the request from (request id, milliseconds left)."""
Answer = tuple[Reply, bytes]


class Lost(Exception):
    """No answer came: the connection was lost, the leader changed, or the time was over."""


class Failure(Exception):
    """The answer is a `Failed` reply."""

    def __init__(self, error: StoreError, decided: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.decided = decided


async def ask(
    link: NodeLink, make_head: MakeHead, body: Sequence[Buffer], timeout_s: float
) -> Answer:
    """Send one request to one node, and return its answer; raise Failure, Lost or TimeoutError."""
    request_id = link.next_id()
    answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def on_reply(reply: Reply | None, payload: bytes) -> None:
        """Pass on the final reply, or None if the connection was lost."""
        if not answered.done() and type(reply) is not Accepted:
            answered.set_result(None if reply is None else (reply, payload))

    head = make_head(request_id, max(1, int(timeout_s * 1000)))
    if not link.request(request_id, head, body, on_reply):
        raise Failure(Unavailable("the connection is down or congested"), decided=False)
    try:
        async with asyncio.timeout(timeout_s):
            answer = await answered
    finally:
        link.forget(request_id)
    if answer is None:
        raise Lost
    if isinstance(answer[0], Failed):
        raise Failure(failures.decode(answer[0]), answer[0].decided)
    return answer


async def ask_leader(
    owner: Connections,
    group: int,
    make_head: MakeHead,
    body: Sequence[Buffer] = (),
    *,
    timeout_s: float,
) -> Answer:
    """Ask the present leader, again after each change, until the deadline; return its answer.

    Raises the leader's refusal, Unavailable if nothing was ever proposed, else OutcomeUnknown.
    """
    deadline_s = owner.now_s() + timeout_s
    maybe_done = False
    trouble: StoreError = Unavailable(f"group {group} has no leader that we know of")
    wait_s = RETRY_FIRST_S
    while (left_s := deadline_s - owner.now_s()) > 0:
        change = owner.next_change(group)
        link = owner.leader_link(group)
        if link is None:
            await _within(change, left_s)
            continue
        try:
            return await _ask_while_leader(owner, group, link, make_head, body, left_s)
        except Failure as failure:
            trouble = failure.error
            if isinstance(trouble, OutcomeUnknown):
                maybe_done = True
            elif isinstance(trouble, NotLeader):
                owner.refused_by(link, group, trouble.hint)
            elif isinstance(trouble, Conflict) and maybe_done:
                raise OutcomeUnknown(f"sent twice, and the second time: {trouble}") from None
            elif not isinstance(trouble, Unavailable | Overloaded) or failure.decided:
                raise trouble from None
        except (Lost, TimeoutError):
            maybe_done = True
            trouble = OutcomeUnknown("the answer was lost")
        await _within(change, min(wait_s, max(0.0, deadline_s - owner.now_s())))
        wait_s = min(RETRY_MOST_S, wait_s * 2)
    if maybe_done:
        raise OutcomeUnknown("sent, and not answered in time")
    raise trouble if isinstance(trouble, Unavailable | Overloaded) else Unavailable(str(trouble))


async def _ask_while_leader(
    owner: Connections,
    group: int,
    link: NodeLink,
    make_head: MakeHead,
    body: Sequence[Buffer],
    timeout_s: float,
) -> Answer:
    """Ask one leader; raise Lost when another one leads, because a hung leader never answers."""
    asking = asyncio.ensure_future(ask(link, make_head, body, timeout_s))
    try:
        while True:
            changing = asyncio.ensure_future(owner.next_change(group).wait())
            try:
                await asyncio.wait((asking, changing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changing.cancel()
            if asking.done():
                return asking.result()
            leader = owner.leader_link(group)
            if leader is not None and leader is not link:
                raise Lost
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _within(change: asyncio.Event, timeout_s: float) -> None:
    """Wait until the leader changes or the time is over."""
    try:
        async with asyncio.timeout(timeout_s):
            await change.wait()
    except TimeoutError:
        return


async def ask_replicas(
    owner: Connections,
    group: int,
    make_head: MakeHead,
    good: Callable[[Reply], bool],
    *,
    timeout_s: float,
) -> Answer:
    """Ask the leader first, then the other replicas, each for at most `REPLICA_TIMEOUT_S`.

    An answer that is not `good` (from a replica that is behind) is used if there is no better one.
    A leader's refusal is believed at once, another replica's when nobody answers. A truncation is
    believed from any replica, because it is for ever.
    """
    deadline_s = owner.now_s() + timeout_s
    trouble: StoreError = Unavailable(f"no replica of group {group} is connected")
    wait_s = RETRY_FIRST_S
    while True:
        spare: Answer | None = None
        change = owner.next_change(group)
        leader = owner.leader_link(group)
        for link in owner.replica_links(group):
            left_s = min(REPLICA_TIMEOUT_S, deadline_s - owner.now_s())
            if left_s <= 0:
                break
            try:
                answer = await ask(link, make_head, (), left_s)
            except Failure as failure:
                transient = isinstance(failure.error, Unavailable | Overloaded | NotLeader)
                if isinstance(failure.error, QueueTruncated) or (link is leader and not transient):
                    raise failure.error from None
                trouble = failure.error
            except (Lost, TimeoutError):
                trouble = Unavailable(f"node {link.node} did not answer")
            else:
                if good(answer[0]):
                    return answer
                spare = spare or answer
        if spare is not None:
            return spare
        left_s = deadline_s - owner.now_s()
        if left_s <= 0:
            raise trouble
        await _within(change, min(wait_s, left_s))
        wait_s = min(RETRY_MOST_S, wait_s * 2)


async def ask_node(
    owner: Connections, node: int, make_head: MakeHead, *, timeout_s: float
) -> Answer:
    """Ask this node and no other, once it is connected; raises its refusal, or Unavailable."""
    deadline_s = owner.now_s() + timeout_s
    while (link := owner.node_link(node)) is None or not link.up:
        if link is None:
            raise Unavailable(f"node {node} is unknown")
        if owner.now_s() >= deadline_s:
            raise Unavailable(f"node {node} is not reached: {link.last_failure}")
        await asyncio.sleep(RETRY_FIRST_S)
    try:
        return await ask(link, make_head, (), max(0.001, deadline_s - owner.now_s()))
    except Failure as failure:
        raise failure.error from None
    except (Lost, TimeoutError):
        raise Unavailable(f"node {node} did not answer") from None
