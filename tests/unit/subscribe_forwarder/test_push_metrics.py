"""The metrics of pushing are equal to what the endpoint has seen."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest
from prometheus_client import REGISTRY

from metadata.errors import MetadataUnavailable
from subscribe_forwarder.push import breaker as breaker_module
from subscribe_forwarder.push import pushers as pushers_module
from subscribe_forwarder.push.attempts import MAX_FAILURES, MAX_SUCCESSES
from subscribe_forwarder.push.breaker import FAILURES
from subscribe_forwarder.push.endpoint import Endpoint, endpoint_key
from subscribe_forwarder.push.verdict import Answer, judge
from tests.unit.subscribe_forwarder.fake_ownership import TENANT
from tests.unit.subscribe_forwarder.push_support import (
    OK,
    Arrived,
    Pushing,
    answer,
    pushing,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushers_module, "TICK_S", 0.02)
    monkeypatch.setattr(breaker_module, "PAUSE_FIRST_S", 0.05)


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"packetboat_push_{name}", labels) or 0.0


class Since:
    """The growth of a metric family since its creation, by its only label."""

    def __init__(self, name: str, label: str) -> None:
        self._name, self._label = name, label
        self._before = self._now()

    def grown(self) -> dict[str, float]:
        now = self._now()
        changed = {each: now[each] - self._before.get(each, 0.0) for each in now}
        return {each: by for each, by in changed.items() if by}

    def _now(self) -> dict[str, float]:
        return {
            one.labels[self._label]: one.value
            for family in REGISTRY.collect()
            for one in family.samples
            if one.name == f"packetboat_push_{self._name}"
        }


ANSWERS = [
    pytest.param(OK, "delivered", id="2xx"),
    pytest.param(answer(422), "refused", id="422"),
    pytest.param(answer(429, retry_after="0"), "busy", id="429"),
    pytest.param(answer(503, retry_after="0"), "busy", id="503"),
    pytest.param(answer(500), "failed", id="500"),
    pytest.param(answer(302), "failed", id="redirect"),
    pytest.param(answer(None, "timeout"), "failed", id="timeout"),
    pytest.param(answer(200, "too long"), "failed", id="a body without end"),
]


@pytest.mark.parametrize(("first", "outcome"), ANSWERS)
async def test_requests_and_messages_are_counted_by_outcome(first: Answer, outcome: str) -> None:
    answers = itertools.chain([first, first], itertools.repeat(OK))
    requests: Counter[str] = Counter()
    messages: Counter[str] = Counter()

    def count(one: Arrived) -> Answer:
        given = next(answers)
        requests[outcome if given is first else "delivered"] += 1
        messages[outcome if given is first else "delivered"] += len(one.data)
        return given

    told = Since("requests_total", "outcome"), Since("messages_total", "outcome")
    observed = sample("request_seconds_count")
    async with pushing(count, format="json", max_batch=7) as p:
        p.w.store.publish(*[b"%d" % i for i in range(50)])
        await p.settled()
    assert requests[outcome] >= 2
    assert told[0].grown() == requests
    assert told[1].grown() == messages
    assert messages["delivered"] == 50, "and no more: each was settled by one of them"
    assert sample("request_seconds_count") - observed == requests.total()


async def test_one_that_is_gone_is_counted_and_its_messages_are_not_delivered() -> None:
    requests, messages = Since("requests_total", "outcome"), Since("messages_total", "outcome")
    decisions = Since("decisions_total", "what")
    async with pushing(lambda _: answer(410), max_concurrency=1) as p:
        p.w.store.publish(b"a", b"b")
        await p.until(lambda: p.state()["state"] == "disabled")
        assert (requests.grown(), messages.grown()) == ({"gone": 1}, {"gone": 1})
        assert decisions.grown()["disabled"] == 1
        p.sender.behave = lambda _: OK
        await p.pushers.enable(p.w.metadata.subscriptions["reader"])
        await p.settled()
    assert messages.grown() == {"gone": 1, "delivered": 2}
    assert decisions.grown()["enabled"] == 1


async def test_requests_that_are_out_are_told_while_they_are() -> None:
    gate = asyncio.Event()

    async def held(_: Arrived) -> Answer:
        await gate.wait()
        return OK

    before = sample("in_flight")
    async with pushing(held, max_concurrency=3) as p:
        p.w.store.publish(*[b"%d" % i for i in range(10)])
        await p.until(lambda: p.sender.at_once == 3)
        assert sample("in_flight") - before == 3
        gate.set()
        await p.settled()
        assert sample("in_flight") == before


async def test_breakers_are_told_as_they_change_and_as_they_are() -> None:
    decisions = Since("decisions_total", "what")
    async with pushing(lambda _: answer(None, "refused")) as p:
        p.w.store.publish(*[b"%d" % i for i in range(100)])
        await p.until(lambda: breakers(p) == {"open": 1, "half_open": 0, "closed": 0})
        p.sender.behave = lambda _: OK
        await p.settled()
        assert breakers(p) == {"open": 0, "half_open": 0, "closed": 1}
    grown = decisions.grown()
    assert grown["breaker_closed"] == 1
    assert grown["breaker_open"] == grown["breaker_half_open"] >= 1


def test_an_endpoint_that_is_tried_as_if_nothing_had_been_has_a_closed_breaker() -> None:
    endpoint = Endpoint(endpoint_key(TENANT, "https://hooks.example/in"), 0.0)
    decisions = Since("decisions_total", "what")
    endpoint.reset(0.0)
    assert decisions.grown() == {}, "it was closed"
    for second in range(FAILURES):
        endpoint.begin(1, second)
        endpoint.ended(second, judge(answer(500), 0.0), second)
    assert decisions.grown() == {"breaker_open": 1}
    endpoint.reset(FAILURES)
    assert decisions.grown() == {"breaker_open": 1, "breaker_closed": 1}


def breakers(p: Pushing) -> dict[str, float]:
    p.means.endpoints.tell()
    return {one: sample("endpoints", breaker=one) for one in ("open", "half_open", "closed")}


ASKED = [
    pytest.param(answer(429, retry_after="1"), "retry_after", id="a pause"),
    pytest.param(answer(200, packetboat_max_concurrency="1"), "throttle", id="a throttle"),
]


@pytest.mark.parametrize(("asks", "what"), ASKED)
async def test_what_an_endpoint_asks_for_is_counted(asks: Answer, what: str) -> None:
    decisions = Since("decisions_total", "what")
    async with pushing(lambda _: asks, max_concurrency=1) as p:
        p.w.store.publish(b"a")
        await p.until(lambda: bool(decisions.grown()))
    assert decisions.grown() == {what: 1}


async def test_challenges_are_counted_by_their_end() -> None:
    decisions = Since("decisions_total", "what")

    def willing(one: Arrived) -> Answer:
        challenge = one.headers.get("Packetboat-Verification", "")
        return Answer(200, {}, challenge.encode(), 0.001, "")

    async with pushing(verify=True) as p:
        await p.until(lambda: decisions.grown() == {"unverified": 1})
        p.sender.behave = willing
        await p.pushers.verify_now(p.w.metadata.subscriptions["reader"])
    assert decisions.grown() == {"unverified": 1, "verified": 1}


async def test_attempts_beyond_the_rate_of_the_log_are_counted() -> None:
    lost = Since("attempts_unlogged_total", "why")
    seen: set[str] = set()

    def second_time(one: Arrived) -> Answer:
        (data,) = one.data
        if data in seen:
            return OK
        seen.add(data)
        return answer(400)

    beyond = 30
    count = MAX_FAILURES + beyond
    async with pushing(second_time) as p:
        p.w.store.publish(*[b"%d" % i for i in range(count)])
        await p.settled()
        await p.means.log.flush()
        assert len(p.attempts.rows) == MAX_FAILURES + MAX_SUCCESSES
    assert lost.grown() == {"rate": beyond + count - MAX_SUCCESSES}


async def test_attempts_that_postgres_did_not_take_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = Since("attempts_unlogged_total", "why")

    async def away(_: object) -> None:
        await asyncio.sleep(0)
        raise MetadataUnavailable("away")

    async with pushing() as p:
        p.w.store.publish(b"a", b"b", b"c")
        await p.settled()
        monkeypatch.setattr(p.attempts, "append", away)
        with pytest.raises(MetadataUnavailable):
            await p.means.log.flush()
    assert lost.grown() == {"postgres": 3}
