"""Pushing: what an endpoint takes is settled, what it does not comes again, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from edge.breaker import State
from edge.quota import PUSH_CONCURRENCY
from metadata.errors import MetadataUnavailable
from metadata.types import ChangeKind, RetryPolicy
from openapi.subscriptions import DeliveryValue
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.push import breaker as breaker_module
from subscribe_forwarder.push import engine as engine_module
from subscribe_forwarder.push import pushers as pushers_module
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import MAX_UNCOMMITTED
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.verdict import Answer, judge
from tests.unit.subscribe_forwarder.fake_ownership import TENANT
from tests.unit.subscribe_forwarder.push_support import (
    OK,
    Arrived,
    FakeEndpoints,
    Pushing,
    answer,
    push_subscription,
    pushing,
)
from tests.unit.subscribe_forwarder.subscribe_support import (
    NO_OUTBOX,
    SUBSCRIPTION_UID,
    doomed,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushers_module, "TICK_S", 0.02)
    monkeypatch.setattr(pushers_module, "TOLD_AFTER_S", 0.05)
    monkeypatch.setattr(breaker_module, "PAUSE_FIRST_S", 0.05)


async def change(p: Pushing, **changes: object) -> None:
    """Change the subscription, and tell its owner."""
    known = p.w.metadata.subscriptions["reader"]
    p.w.metadata.subscriptions["reader"] = replace(
        known,
        version=known.version + 1,
        **changes,  # type: ignore[arg-type]
    )
    await p.w.metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID, "reader")
    p.pushers.changed(SUBSCRIPTION_UID, known.topic_uid)


async def test_what_is_there_and_what_comes_is_pushed_and_settled() -> None:
    async with pushing(partitions=2) as p:
        p.w.store.publish(b"a", b"b")
        await p.arrived(2)
        p.w.store.publish(b"c", partition=1)
        assert sorted(await p.arrived(3)) == ["a", "b", "c"]
        await p.settled()
        assert [one.messages[0]["attempt"] for one in p.sender.arrived] == [1, 1, 1]
        assert p.sender.arrived[0].headers["Packetboat-Subscription"] == "reader"


async def test_ten_thousand_arrive_once_each() -> None:
    async with pushing() as p:
        for n in range(10):
            p.w.store.publish(*[b"%d" % (1000 * n + i) for i in range(1000)])
        data = await p.arrived(10_000)
        await p.settled()
        assert sorted(map(int, data)) == list(range(10_000))
        assert p.sender.most_at_once <= 100
        assert len(p.w.metadata.flushes) < 2_000, "acks are committed together"


async def test_no_more_at_once_than_it_allows() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.002)
        return OK

    async with pushing(slow, max_concurrency=3) as p:
        p.w.store.publish(*[b"%d" % i for i in range(300)])
        await p.arrived(300)
        await p.settled()
        assert p.sender.most_at_once == 3


async def test_a_failure_is_an_attempt_and_comes_again() -> None:
    seen: dict[str, int] = {}

    def third_time(one: Arrived) -> Answer:
        (data,) = one.data
        seen[data] = seen.get(data, 0) + 1
        return OK if seen[data] == 3 or data != "a" else answer(422)

    async with pushing(third_time) as p:
        p.w.store.publish(b"a", b"b")
        await p.settled()
        assert seen == {"a": 3, "b": 1}
        attempts = [one.messages[0]["attempt"] for one in p.sender.arrived if one.data == ["a"]]
        assert attempts == [1, 2, 3]
        assert p.endpoint.breaker.state is State.CLOSED, "the message was at fault"


async def test_a_batch_is_one_request_and_settles_all() -> None:
    async with pushing(format="json", max_batch=50) as p:
        p.w.store.publish(*[b"%d" % i for i in range(500)])
        await p.arrived(500)
        await p.settled()
        assert len(p.sender.arrived) < 100
        assert max(len(one.data) for one in p.sender.arrived) <= 50


async def test_a_batch_that_is_refused_is_sent_one_by_one() -> None:
    def picky(one: Arrived) -> Answer:
        return answer(400) if "7" in one.data else OK

    retry = RetryPolicy(min_backoff_s=0.0, max_attempts=3)
    refused = replace(push_subscription(max_batch=20), retry=retry, dead_letter_topic="letters")
    with doomed() as told:
        async with pushing(picky, subscriptions=[refused], outbox=NO_OUTBOX) as p:
            p.w.store.publish(*[b"%d" % i for i in range(20)])
            await p.until(lambda: [dead.offset for _, dead in told] == [7])
            await p.until(lambda: p.w.metadata.row().counters.acked == 19)


async def test_nothing_is_leased_while_the_endpoint_is_away() -> None:
    up = False

    def away(_: Arrived) -> Answer:
        return OK if up else answer(None, "refused")

    async with pushing(away) as p:
        p.w.store.publish(*[b"%d" % i for i in range(1000)])
        await p.until(lambda: p.state().get("breaker") == "open")
        await p.until(lambda: p.sender.at_once == 0 and p.told().leased_ahead == 0)
        tried = len(p.sender.arrived)
        assert tried < 20
        await p.until(lambda: bool(p.w.metadata.row().stepped_over))
        failed = sum(one.attempts for one in p.w.metadata.row().stepped_over)
        up = True
        await p.settled()
        tried_again = [one for one in p.sender.arrived if one.messages[0]["attempt"] > 1]
        assert len(p.sender.arrived) - 1000 <= tried + 20, "nothing but probes failed"
        assert len(tried_again) >= failed > 0
        assert p.endpoint.breaker.state is State.CLOSED


async def test_other_endpoints_go_on() -> None:
    def one_hangs(one: Arrived) -> Answer:
        return answer(None, "closed") if "bad" in one.url else OK

    good = push_subscription("good", url="https://good.example/")
    bad = replace(push_subscription("bad", url="https://bad.example/"), uid=bytes(15) + b"\x08")
    async with pushing(one_hangs, subscriptions=[good, bad]) as p:
        p.w.store.publish(*[b"%d" % i for i in range(100)])
        await p.until(lambda: len([one for one in p.sender.arrived if "good" in one.url]) == 100)
        assert len([one for one in p.sender.arrived if "bad" in one.url]) < 20


@pytest.mark.parametrize("status", [500, 503, None])
async def test_a_path_that_fails_stops_no_other_of_its_origin(status: int | None) -> None:
    def one_path(one: Arrived) -> Answer:
        bad = answer(status, "" if status else "closed")
        return bad if one.url.endswith("/bad") else OK

    good = push_subscription("good", url="https://hooks.example/good")
    bad = push_subscription("bad", url="https://hooks.example/bad")
    bad = replace(bad, uid=bytes(15) + b"\x08")
    async with pushing(one_path, subscriptions=[good, bad]) as p:

        def arrived(path: str) -> int:
            return len([one for one in p.sender.arrived if one.url.endswith(path)])

        def reached(count: int) -> Callable[[], bool]:
            return lambda: arrived("/good") == count

        def breaker(uid: bytes) -> object:
            shown = p.pushers.status(uid)
            return None if shown is None else shown.breaker

        p.w.store.publish(*[b"%d" % i for i in range(300)])
        await p.until(reached(300))
        await p.until(lambda: breaker(bad.uid) == "open")
        tried = arrived("/bad")
        for one in range(20):
            began_s = asyncio.get_running_loop().time()
            p.w.store.publish(b"more")
            await p.until(reached(301 + one))
            assert asyncio.get_running_loop().time() - began_s < 0.5, "it did not wait"
            assert breaker(good.uid) == "closed"
        assert arrived("/bad") - tried < 20


async def test_an_origin_that_answers_nobody_is_asked_once_a_second_by_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    up = False

    def away(_: Arrived) -> Answer:
        return OK if up else answer(None, "refused")

    many = [
        replace(
            push_subscription(f"s{n}", url=f"https://hooks.example/{n}"), uid=bytes(15) + bytes([n])
        )
        for n in range(1, 21)
    ]
    async with pushing(away, subscriptions=many) as p:
        await p.until(lambda: len(p.pushers._pushed) == len(many))
        p.w.store.publish(*[b"%d" % i for i in range(10)])
        (origin,) = p.means.endpoints._known.values()
        await p.until(lambda: origin.silent)
        tried = len(p.sender.arrived)
        assert tried <= 2 * len(many)
        await asyncio.sleep(1.5)
        assert len(p.sender.arrived) - tried <= 3
        up = True
        await p.until(
            lambda: len({(one.url, *one.data) for one in p.sender.arrived[tried:]}) >= 200
        )


async def test_retry_after_is_obeyed_by_all_of_the_endpoint() -> None:
    busy = True

    def once(_: Arrived) -> Answer:
        return answer(429, retry_after="1") if busy else OK

    async with pushing(once, max_concurrency=1) as p:
        p.w.store.publish(b"a", b"b")
        await p.arrived(1)
        busy = False
        asked_s = asyncio.get_running_loop().time()
        await p.settled()
        assert asyncio.get_running_loop().time() - asked_s > 0.8
        assert p.sender.data[0] == "a"


async def test_a_rate_that_is_asked_for_is_kept() -> None:
    def slowly(_: Arrived) -> Answer:
        return answer(200, packetboat_max_rate="50", packetboat_throttle_seconds="60")

    async with pushing(slowly, max_concurrency=1) as p:
        p.w.store.publish(*[b"%d" % i for i in range(60)])
        began_s = asyncio.get_running_loop().time()
        await p.arrived(60)
        assert asyncio.get_running_loop().time() - began_s > 0.7
        assert p.state()["max_rate"] == 50


async def test_gone_is_disabled_at_once_and_keeps_its_backlog() -> None:
    gone = True

    def leaves(_: Arrived) -> Answer:
        return answer(410) if gone else OK

    async with pushing(leaves, max_concurrency=1) as p:
        p.w.store.publish(b"a", b"b", b"c")
        await p.until(lambda: p.state()["state"] == "disabled")
        assert "410" in p.state()["reason"]
        tried = len(p.sender.arrived)
        assert tried == 1
        await p.until(lambda: p.state()["state"] == "disabled")
        gone = False
        await p.pushers.enable(p.w.metadata.subscriptions["reader"])
        await p.settled()
        assert {one.messages[0]["attempt"] for one in p.sender.arrived} == {1}


async def test_nothing_but_failures_disable_it_and_a_success_does_not() -> None:
    async with pushing(lambda _: answer(500), disable_after_s=0.3) as p:
        p.w.store.publish(b"a", b"b", b"c")
        await p.until(lambda: p.state()["state"] == "disabled")
        assert "nothing but failures" in p.state()["reason"]
        p.sender.behave = lambda _: OK
        await p.pushers.enable(p.w.metadata.subscriptions["reader"])
        await p.settled()
        assert p.state()["state"] == "enabled"
        assert p.state()["failing_since"] is None


async def test_it_stays_disabled_at_the_next_owner() -> None:
    endpoints = FakeEndpoints()
    await endpoints.disable(push_subscription(), "for a reason")
    async with pushing(endpoints=endpoints) as p:
        p.w.store.publish(b"a")
        await p.until(lambda: bool(p.pushers._pushed))
        await asyncio.sleep(0.1)
        assert p.sender.arrived == []
        assert (p.state()["state"], p.state()["reason"]) == ("disabled", "for a reason")


async def test_nothing_is_sent_before_the_challenge_is_answered() -> None:
    def deaf(one: Arrived) -> Answer:
        return OK

    def willing(one: Arrived) -> Answer:
        challenge = one.headers.get("Packetboat-Verification", "")
        return Answer(200, {}, challenge.encode(), 0.001, "")

    async with pushing(deaf, verify=True) as p:
        p.w.store.publish(b"a")
        await p.until(lambda: "repeat" in (p.state().get("reason") or ""))
        assert p.sender.data == []
        p.sender.behave = willing
        found = await p.pushers.verify_now(p.w.metadata.subscriptions["reader"])
        assert found.reason == ""
        await p.settled()
        config = p.w.metadata.subscriptions["reader"].push
        assert config is not None
        elsewhere = msgspec.structs.replace(config, url="https://elsewhere.example/")
        p.sender.behave = deaf
        await change(p, push=elsewhere)
        p.w.store.publish(b"b")
        await p.until(lambda: p.state()["state"] == "unverified")
        await asyncio.sleep(0.05)
        assert p.sender.data == ["a"]
        p.sender.behave = willing
        await p.settled()
        assert {one.url for one in p.sender.arrived if b"messages" in one.body} == {
            config.url,
            elsewhere.url,
        }


@pytest.mark.parametrize("delivery", ["exactly_once", "at_most_once"])
async def test_what_is_committed_before_bytes_leave(delivery: DeliveryValue) -> None:
    committed: list[bool] = []

    def look(one: Arrived) -> Answer:
        row = p.w.metadata.row()
        leased = [span for lease in row.leases for span in lease.offsets]
        settled = [(0, row.floor), *row.acked]
        spans = settled if delivery == "at_most_once" else leased
        for message in one.messages:
            committed.append(any(low <= message["offset"] < high for low, high in spans))
        return OK

    one = replace(push_subscription(), delivery=delivery)
    async with pushing(subscriptions=[one]) as p:
        p.sender.behave = look
        p.w.store.publish(*[b"%d" % i for i in range(50)])
        await p.arrived(50)
        await p.settled()
        assert committed == [True] * 50


@pytest.mark.parametrize("delivery", ["exactly_once", "at_most_once"])
async def test_nothing_is_rendered_for_a_commit_before_a_push(
    delivery: DeliveryValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[int] = []
    render = PartitionRenderer.fragment

    def fragment(self: PartitionRenderer, message: Message, offset: int, *more: Any) -> bytes:
        rendered.append(offset)
        return render(self, message, offset, *more)

    monkeypatch.setattr(PartitionRenderer, "fragment", fragment)
    one = replace(push_subscription(), delivery=delivery)
    async with pushing(subscriptions=[one]) as p:
        p.w.metadata.flush_gate = asyncio.Event()
        p.w.store.publish(b"a", b"b")
        while not p.w.metadata.flushes:
            await asyncio.sleep(0.001)
        assert rendered == [], "its requests are rendered when they are made"
        p.w.metadata.flush_gate.set()
        await p.arrived(2)
        await p.settled()
        assert rendered == [0, 1]


async def test_at_most_once_is_not_repeated() -> None:
    one = replace(push_subscription(), delivery="at_most_once")
    async with pushing(lambda _: answer(400), subscriptions=[one]) as p:
        p.w.store.publish(*[b"%d" % i for i in range(20)])
        await p.arrived(20)
        await p.settled()
        await asyncio.sleep(0.05)
        assert len(p.sender.arrived) == 20


async def test_in_order_one_of_a_key_is_out() -> None:
    out: set[str] = set()
    order: dict[str, list[int]] = {}

    async def look(one: Arrived) -> Answer:
        (message,) = one.messages
        key = message["key"]
        assert key not in out
        out.add(key)
        await asyncio.sleep(0.001)
        out.discard(key)
        order.setdefault(key, []).append(message["offset"])
        return OK

    one = replace(push_subscription(), ordered=True)
    async with pushing(look, subscriptions=[one]) as p:
        for i in range(100):
            p.w.store.publish(b"x", key=f"k{i % 5}")
        await p.settled()
        assert all(offsets == sorted(offsets) for offsets in order.values())


async def test_paused_gives_back_and_goes_on() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.01)
        return OK

    async with pushing(slow) as p:
        p.w.store.publish(*[b"%d" % i for i in range(300)])
        await p.arrived(10)
        await change(p, state="paused")
        await p.until(lambda: p.sender.at_once == 0)
        arrived = len(p.sender.arrived)
        assert arrived < 300
        await change(p, state="active")
        await p.settled()
        assert len(p.sender.arrived) == 300


async def test_nothing_leaves_for_a_suspended_tenant_and_its_backlog_is_kept() -> None:
    async with pushing(max_concurrency=2) as p:
        p.w.store.publish(b"a")
        await p.settled()
        await p.tenants_change(frozenset({TENANT}))
        await p.until(lambda: p.state()["reason"] == "its tenant is not active")
        p.w.store.publish(*[b"%d" % i for i in range(50)])
        await asyncio.sleep(0.2)
        assert len(p.sender.arrived) == 1
        await p.tenants_change(frozenset())
        await p.settled()
        assert len(p.sender.arrived) == 51
        assert {one.messages[0]["attempt"] for one in p.sender.arrived} == {1}
        assert p.state()["reason"] is None


async def test_a_tenant_that_is_suspended_amid_its_backlog_gets_the_rest_afterwards() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.01)
        return OK

    async with pushing(slow) as p:
        p.w.store.publish(*[b"%d" % i for i in range(300)])
        await p.arrived(10)
        await p.tenants_change(frozenset({TENANT}))
        await p.until(lambda: not p.pushers._closing and p.sender.at_once == 0)
        arrived = len(p.sender.arrived)
        assert arrived < 300
        await p.tenants_change(frozenset())
        await p.settled()
        assert len(p.sender.arrived) == 300


async def test_time_without_requests_is_no_time_of_failures() -> None:
    async with pushing(lambda _: answer(500), disable_after_s=3600.0) as p:
        p.w.store.publish(b"a")
        await p.until(lambda: p.state()["failing_since"] is not None)
        one = p.w.metadata.subscriptions["reader"]
        await p.endpoints.failing([(one, 3000.0)])
        await p.tenants_change(frozenset({TENANT}))
        await p.until(lambda: p.state()["reason"] is not None)
        await p.until(lambda: not p.sender.at_once)
        await p.tenants_change(frozenset())
        await p.until(lambda: p.state()["reason"] is None)
        assert p.endpoints.rows[one.uid].failing_since is None


@pytest.mark.parametrize(("requests", "batch"), [(8, 1), (100, 1), (4, 50)])
async def test_what_is_out_or_not_committed_is_bounded(requests: int, batch: int) -> None:
    async with pushing(max_concurrency=requests, max_batch=batch) as p:
        gate = p.w.metadata.flush_gate = asyncio.Event()
        p.w.store.publish(*[b"%d" % i for i in range(2000)])
        waits = max(MAX_UNCOMMITTED, requests * batch)
        await p.arrived(waits)
        await p.until(lambda: not p.engine.in_flight)
        await asyncio.sleep(0.1)
        assert waits <= len(p.sender.data) < waits + requests * batch
        assert p.told().uncommitted == len(p.sender.data)
        gate.set()
        p.w.metadata.flush_gate = None
        await p.settled()
        assert len(p.sender.data) == 2000


async def test_acks_of_what_went_elsewhere_hold_up_nothing() -> None:
    """The acks do not wait either while a commit of others runs."""
    asked = asyncio.Event()
    let_go = asyncio.Event()

    async def holds(one: Arrived) -> Answer:
        if one.messages[0]["partition"] == 0:
            asked.set()
            await let_go.wait()
        return OK

    async with pushing(holds, partitions=2, max_batch=100) as p:
        p.w.store.publish(*[b"%d" % i for i in range(300)])
        await asked.wait()
        await p.until(lambda: p.engine.in_flight == 3)
        gate = p.w.metadata.flush_gate = asyncio.Event()
        p.w.store.publish(b"other", partition=1)
        await p.until(lambda: p.told().uncommitted == 1)
        for owner in [one for one in p.w.forwarder.owners if one.key.partition == 0]:
            await p.w.forwarder.owners.drop(owner.key)
        let_go.set()
        await p.until(lambda: len(p.late) == 300)
        assert {how for how, _ in p.late} == {"ack"}
        gate.set()
        await p.until(lambda: p.told().uncommitted == 0)


async def test_an_ack_whose_commit_failed_as_it_went_elsewhere_is_passed_on() -> None:
    async with pushing() as p:
        gate = p.w.metadata.flush_gate = asyncio.Event()
        p.w.store.publish(b"a")
        await p.until(lambda: p.told().uncommitted == 1)
        await p.until(lambda: p.engine._outcomes._task is not None)
        p.w.store.publish(b"b")
        await p.arrived(2)
        (owner,) = p.w.forwarder.owners
        await p.w.forwarder.owners.drop(owner.key)
        gate.set()
        await p.until(lambda: len(p.late) == 2)
        assert {how for how, _ in p.late} == {"ack"}


async def test_what_was_leased_and_not_sent_is_released_where_it_is_now() -> None:
    let_go = asyncio.Event()

    async def holds(_: Arrived) -> Answer:
        await let_go.wait()
        return OK

    async with pushing(holds) as p:
        p.w.store.publish(*[b"%d" % i for i in range(20)])
        await p.until(lambda: p.told().leased_ahead == 4)
        (owner,) = p.w.forwarder.owners
        await p.w.forwarder.owners.drop(owner.key)
        await p.until(lambda: len(p.late) == 4)
        assert {how for how, _ in p.late} == {"release"}
        let_go.set()
        await p.until(lambda: len(p.late) == 8)


async def test_what_no_request_could_be_made_of_is_tried_again_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "UNSENDABLE_S", 0.05)
    failures = iter([MetadataUnavailable("no key yet")] * 3)

    class Failing:
        def build(self, *given: Any) -> PushRequest:
            for error in failures:
                raise error
            return made.build(*given)

    async with pushing() as p:
        made = p.means.requests
        p.means = p.pushers._means = p.means._replace(requests=Failing())
        p.w.store.publish(b"a", b"b")
        await p.arrived(2)
        await p.settled()
        assert [one.messages[0]["attempt"] for one in p.sender.arrived] == [1, 1]


async def test_nothing_runs_once_it_is_closed() -> None:
    """Close also ends requests of an endpoint that was disabled before, with minutes left."""
    before = asyncio.all_tasks()

    async def hangs(_: Arrived) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pushers_module, "GRACE_S", 0.1)
        async with pushing(hangs, timeout_s=600.0) as p:
            p.w.store.publish(b"a", b"b")
            await p.until(lambda: p.engine.in_flight == 2)
            one = p.w.metadata.subscriptions["reader"]
            await p.endpoints.disable(one, "it is bad")
            p.pushers.changed(one.uid, one.topic_uid)
            await p.until(lambda: p.state()["state"] == "disabled")
            await p.pushers.close()
            assert not p.engine._tasks
            assert p.sender.at_once == 0
            assert not p.means.endpoints._known
    assert asyncio.all_tasks() == before


async def test_at_most_once_sends_what_it_has_acked_before_it_stops() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.01)
        return OK

    one = replace(push_subscription(max_concurrency=1), delivery="at_most_once")
    async with pushing(slow, subscriptions=[one]) as p:
        p.w.store.publish(*[b"%d" % i for i in range(20)])
        await p.arrived(1)
        await p.pushers.close()
        row = p.w.metadata.row()
        assert len(p.sender.arrived) == row.floor + sum(high - low for low, high in row.acked)


async def test_exactly_once_gives_back_what_was_committed_after_it_left() -> None:
    one = replace(push_subscription(), delivery="exactly_once")
    async with pushing(subscriptions=[one]) as p:
        await p.until(lambda: p.engine.joined)
        gate = p.w.metadata.flush_gate = asyncio.Event()
        p.w.store.publish(b"a", b"b")
        await p.until(lambda: p.engine._preparing == 2)
        p.pushers.drain()
        gate.set()
        p.w.metadata.flush_gate = None
        await p.until(lambda: p.engine.idle)
        assert p.sender.arrived == []
        assert [reader.ledger.leases.leased for reader in p.engine.hub.readers.values()] == [0]


async def test_the_log_has_every_failure_and_some_successes() -> None:
    seen: set[str] = set()

    def second_time(one: Arrived) -> Answer:
        (data,) = one.data
        if data in seen:
            return OK
        seen.add(data)
        return answer(400)

    async with pushing(second_time) as p:
        p.w.store.publish(*[b"%d" % i for i in range(150)])
        await p.settled()
        await p.means.log.flush()
        outcomes = [row.attempt.outcome for row in p.attempts.rows]
        assert outcomes.count("refused") == 150
        assert outcomes.count("delivered") == 100, "the newest"
        assert [row.attempt.id for row in p.attempts.rows] == sorted(
            row.attempt.id for row in p.attempts.rows
        )
        one = p.attempts.rows[0].attempt
        assert (one.status, one.attempt, one.detail) == (400, 1, "answered 400")
        assert p.attempts.trimmed == 1


async def test_what_is_out_when_it_stops_is_acked_where_it_is_now() -> None:
    asked = asyncio.Event()
    let_go = asyncio.Event()

    async def holds(_: Arrived) -> Answer:
        asked.set()
        await let_go.wait()
        return OK

    async with pushing(holds) as p:
        p.w.store.publish(b"a")
        await asked.wait()
        (owner,) = p.w.forwarder.owners
        await p.w.forwarder.owners.drop(owner.key)
        let_go.set()
        await p.until(lambda: [how for how, _ in p.late] == ["ack"])


class AtMost:
    """`edge.quota.Quotas`, the same for everybody."""

    def __init__(self, share: float) -> None:
        self._share = share

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float:
        assert quota == PUSH_CONCURRENCY
        return self._share


async def test_a_tenant_has_no_more_out_than_its_share() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.002)
        return OK

    one = push_subscription("one", url="https://one.example/")
    two = replace(push_subscription("two", url="https://two.example/"), uid=bytes(15) + b"\x08")
    async with pushing(slow, subscriptions=[one, two]) as p:
        p.means.endpoints._levels = AtMost(3)
        p.w.store.publish(*[b"%d" % i for i in range(100)])
        await p.arrived(200)
        await p.settled()
        assert p.sender.most_at_once == 3


async def test_one_backlog_does_not_starve_another_at_one_endpoint() -> None:
    async def slow(_: Arrived) -> Answer:
        await asyncio.sleep(0.002)
        return OK

    one = push_subscription("one", max_concurrency=2)
    two = replace(push_subscription("two", max_concurrency=2), uid=bytes(15) + b"\x08")
    async with pushing(slow, subscriptions=[one, two]) as p:
        p.means.endpoints._levels = AtMost(1)
        p.w.store.publish(*[b"%d" % i for i in range(200)])
        await p.arrived(200)
        names = [one.headers["Packetboat-Subscription"] for one in p.sender.arrived[:200]]
        assert 60 <= names.count("one") <= 140


async def test_who_has_no_use_for_room_or_is_gone_is_passed_over() -> None:
    endpoints = Endpoints(AtMost(1))
    woken: list[str] = []

    def waiter(name: str, *, uses: bool) -> Callable[[], bool]:
        def wake() -> bool:
            woken.append(name)
            if uses:
                endpoints.begin(endpoint, 1)
            return uses

        return wake

    waiters = [
        waiter("gone", uses=True),
        *(waiter("idle", uses=False) for _ in range(3)),
        waiter("busy", uses=True),
        waiter("next", uses=True),
    ]
    used = [endpoints.use(bytes(16), "https://one.example/", bytes(16)) for _ in waiters]
    endpoint = used[0]
    began_s = endpoints.begin(endpoint, 1)
    for wake in waiters:
        endpoints.wait(endpoint, wake)
    endpoints.leave(endpoint, waiters[0])
    endpoints.ended(endpoint, began_s, judge(OK, 0.0))
    assert woken == ["idle", "idle", "idle", "busy"]
    endpoints.close()
