"""Previews: how a number of messages is shared out, what is counted, which samples are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.expressions import Expression
from edge.problem import Problem
from edge.process_pool import ProcessPool
from openapi.common import MAX_FILTER_SAMPLES, FilterChanges, FilterPreview
from positions.places import Bounds
from store_nodes.queue_id import QueueId
from subscribe_forwarder.api.preview import MAX_PREVIEWS, PreviewRoutes, share_out
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.selection.preview import Preview
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.delivery.state.lanes import Lane
from tests.unit.subscribe_forwarder.replay_support import Site
from tests.unit.subscribe_forwarder.subscribe_support import TENANT, FakeQueue, topic
from tests.unit.subscribe_forwarder.test_selection import batch_of, message


def stored(*counts: int) -> dict[Lane, Bounds]:
    return {Lane(number): Bounds(5, 5 + count) for number, count in enumerate(counts)}


def test_what_one_place_lacks_goes_to_the_others() -> None:
    assert share_out(10, stored(100, 100)) == {Lane(0): 5, Lane(1): 5}
    assert share_out(10, stored(2, 100, 0)) == {Lane(0): 2, Lane(1): 8}
    assert share_out(10, stored(1, 2)) == {Lane(0): 1, Lane(1): 2}
    assert share_out(1, stored(0, 0)) == {}


@given(st.integers(1, 10_000), st.lists(st.integers(0, 5_000), min_size=1, max_size=40))
def test_as_many_as_are_wanted_or_there(wanted: int, counts: list[int]) -> None:
    shares = share_out(wanted, stored(*counts))
    assert sum(shares.values()) == min(wanted, sum(counts))
    assert all(0 < share <= counts[place.partition] for place, share in shares.items())


def test_counts_against_the_present_filter_and_keeps_the_latest() -> None:
    batch = batch_of([message({"n": n}) for n in range(20)] + [message("text")])
    preview = Preview("data.n < 12", "data.n >= 8")
    renderer = PartitionRenderer(b"t" * 16, 2)
    preview.look(batch, 0, 10, renderer)
    preview.look(batch, 10, 21, renderer)
    result = preview.result()
    assert (result.examined, result.matched, result.errors) == (21, 12, 1)
    assert result.changes == FilterChanges(8, 8)
    matched = [sample.offset - 100 for sample in result.samples.matched]
    assert sorted(matched) == [7, 8, 9, 10, 11]
    assert len(result.samples.unmatched) == MAX_FILTER_SAMPLES


def test_without_a_present_filter_everything_matched_before() -> None:
    preview = Preview("data.n > 0", None)
    batch = batch_of([message({"n": n}) for n in range(3)])
    preview.look(batch, 0, 3, PartitionRenderer(b"t" * 16, 2))
    assert preview.result().changes == FilterChanges(0, 1)


async def previewed(routes: PreviewRoutes, tenant_id: bytes) -> int:
    """Return the status that answers a preview of a filter of the tenant's topic."""
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"filter": "true"}', "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {"packetboat.tenant": tenant_id, "path_params": {"topic": "orders"}, "headers": []}
    try:
        await routes.of_topic(scope, receive, send)
    except Problem as refused:
        return refused.status
    return status


async def test_a_tenant_that_holds_previews_leaves_places_to_others_and_all_hold_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, gate = Site(), asyncio.Event()
    tenants = [TENANT, *(bytes([number]) * 16 for number in range(3))]
    for each in tenants[1:]:
        site.catalog.topics[each] = replace(topic(), uid=each, tenant_id=each)
        site.store.queues[QueueId(each, 0)] = FakeQueue()
    offsets = site.store.offsets

    async def held(*asked: Any) -> Any:
        await gate.wait()
        return await offsets(*asked)

    monkeypatch.setattr(site.store, "offsets", held)
    routes = PreviewRoutes(site)
    ones = [asyncio.create_task(previewed(routes, TENANT)) for _ in range(MAX_PREVIEWS)]
    others = [asyncio.create_task(previewed(routes, each)) for each in tenants[1:]]
    for _ in range(20):
        await asyncio.sleep(0)
    assert [one.result() for one in ones if one.done()] == [503, 503], "it has half of them"
    assert [one.done() and one.result() for one in others] == [False, False, 503]
    gate.set()
    assert {await one for one in ones[:2] + others[:2]} == {200}
    assert await previewed(routes, tenants[3]) == 200


async def test_no_expression_of_a_preview_is_evaluated_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, process_pool = Site(), ProcessPool()
    for number in range(20):
        site.store.publish(message({"n": number}))
    site.store.publish(message("text"))
    site.evaluator = WorkerEvaluator(process_pool)

    def here(expression: Expression, variables: Mapping[str, object]) -> bool:
        raise AssertionError(f"{expression.text!r} is evaluated here")

    calls = 0
    run = process_pool.run

    async def counted(*call: Any) -> Any:
        nonlocal calls
        calls += 1
        return await run(*call)

    monkeypatch.setattr(process_pool, "run", counted)
    monkeypatch.setattr(Expression, "matches", here)
    answer: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"filter": "data.n < 12"}', "more_body": False}

    async def send(sent: Mapping[str, Any]) -> None:
        answer.append(sent.get("body", b""))

    scope = {"packetboat.tenant": TENANT, "path_params": {"topic": "orders"}, "headers": []}
    try:
        await PreviewRoutes(site).of_topic(scope, receive, send)
    finally:
        site.evaluator.close()
        await process_pool.close()
    found = msgspec.json.decode(b"".join(answer), type=FilterPreview)
    assert (found.examined, found.matched, found.errors) == (21, 12, 1)
    assert calls == 1, "small batches are judged together"
