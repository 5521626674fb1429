"""Bodies that take long to read are read in a worker process, by all who take long ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from edge.bodies import decode
from edge.large_bodies import HERE_BYTES, MAX_VALUES_HERE, SMALL_BYTES, dear, read_in_worker
from edge.problem import FieldError, Problem
from edge.process_pool import ProcessPool
from gateway.jobs.payload import Completion, Inputs, completions_of, failures_of, inputs_of
from openapi.jobs import TasksFail
from publish_forwarder import batch_body
from publish_forwarder.headers import parse_batch
from publish_forwarder.outputs import _read as read_outputs
from store_nodes.record_batch import Message
from subscribe_forwarder.api import requests
from tests.loop_cpu import MAX_CALLBACK_MS, cpu_ms, measured
from tests.unit.edge.chores import refusing

ACME = b"a" * 16
MIB = 1024 * 1024
NESTED = b"[" * 500 + b"]" * 500


def arrays(size: int) -> bytes:
    return b"[" + b",".join([NESTED] * (size // (len(NESTED) + 1) - 1)) + b"]"


def zeros(size: int) -> bytes:
    return b"[" + b"0," * (size // 2 - 2) + b"0]"


async def batch_of(process_pool: ProcessPool | None, body: bytes, kind: bytes) -> batch_body.Batch:
    metadata = parse_batch([(b"content-type", kind), (b"packetboat-publisher-id", b"p")])
    return await batch_body.read(process_pool, ACME, body, metadata)


@pytest.fixture
async def process_pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool()
    yield made
    await made.close()


async def test_a_problem_of_a_worker_is_raised_as_it_was(process_pool: ProcessPool) -> None:
    with pytest.raises(Problem) as raised:
        await process_pool.run(ACME, refusing)
    problem = raised.value
    assert (problem.status, problem.slug, problem.detail) == (422, "invalid-request", "No.")
    assert problem.errors == (FieldError("a", "wrong"),)
    assert problem.extra == {"index": 3}
    assert problem.headers == {"x": "y"}


def test_what_is_dear() -> None:
    assert not dear(b"," * SMALL_BYTES)
    assert not dear(b"a" * HERE_BYTES)
    assert dear(b"a" * (HERE_BYTES + 1))
    few = b"," * MAX_VALUES_HERE
    assert not dear(few + b"a" * SMALL_BYTES)
    assert dear(few + b"," + b"a" * SMALL_BYTES)


BATCHES: dict[str, tuple[bytes, bytes]] = {
    "arrays in data": (
        b'{"messages":[{"data":' + arrays(10 * MIB) + b'},{"data":1,"key":""}]}',
        b"application/json",
    ),
    "zeros that are no batch": (
        b'{"messages":' + zeros(14 * MIB - 100) + b"}",
        b"application/json",
    ),
    "many that are none": (
        b'{"messages":[' + b"{}," * (2 * MIB // 3 - 20) + b"{}]}",
        b"application/json",
    ),
    "empty lines": (b"\n" * (14 * MIB - 20) + b'{"data":"x"}', b"application/x-ndjson"),
    "MessagePack": (
        msgspec.msgpack.encode({"messages": [{"data": [[]] * MIB}, {"data": b"x" * 10}]}),
        b"application/msgpack",
    ),
}


@pytest.mark.parametrize("name", BATCHES)
async def test_a_large_batch_is_what_a_small_one_is_and_holds_up_nobody(
    name: str, process_pool: ProcessPool
) -> None:
    body, kind = BATCHES[name]
    expected: Any
    try:
        expected = batch_body.decode(body, parse_batch([(b"content-type", kind)])).entries
    except Problem as problem:
        expected = problem.as_dict()
    found: Any
    async with measured() as callbacks:
        try:
            found = (await batch_of(process_pool, body, kind)).entries
        except Problem as problem:
            found = problem.as_dict()
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    if isinstance(expected, list):
        expected, found = list(described(expected)), list(described(found))
    assert found == expected


def described(entries: list[Message | Problem]) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, Problem):
            yield entry.as_dict()
        else:
            yield entry.data, entry.content_type, entry.key


async def test_text_and_bytes_in_messagepack_are_read_here() -> None:
    """The process_pool is not asked: this one would fail."""
    items = [{"data": b"x" * 1000}, {"data": "y" * 1000}] * 400
    body = msgspec.msgpack.encode({"messages": items})
    broken: Any = object()
    found = await batch_of(broken, body, b"application/msgpack")
    assert len(found.entries) == 800


def test_messagepack_of_very_many_values_is_not_read_here() -> None:
    body = msgspec.msgpack.encode({"messages": [{"data": [[]] * SMALL_BYTES}]})
    metadata = parse_batch([(b"content-type", b"application/msgpack")])
    with pytest.raises(batch_body._HoldsMany):
        batch_body.decode(body, metadata, here=True)


def test_blank_lines_cost_little() -> None:
    took_ms, batch = cpu_ms(lambda: list(batch_body._lines(b" \n" * MIB + b"a\r\n\r\nb \n")))
    assert batch == [b"a", b"b"]
    assert took_ms < 200


async def test_a_large_ack(process_pool: ProcessPool) -> None:
    outputs = [{"topic": "t", "data": "x" * MIB}, {"topic": "u", "data": [0] * MIB}]
    refused = {"topic": "u", "data": 1, "content_type": "text/plain"}
    body = json.dumps({"ack_ids": ["a", "b"], "publish": [*outputs, refused]}).encode()
    async with measured() as callbacks:
        ack = await requests.ack_of(process_pool, ACME, body)
        read = await read_outputs(process_pool, ACME, ack.publish)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    assert (ack.ids.field, list(ack.ids.texts)) == ("ack_id", ["a", "b"])
    assert ack.topics == ["t", "u"]
    assert [given.topic for given in read] == ["t", "u", "u"]
    assert read[0].message() == Message(b"x" * MIB, "text/plain")
    with pytest.raises(Problem, match="must be a string"):
        read[2].message()


def test_an_ack_of_very_many_outputs_is_refused_before_their_topics_are_looked_at() -> None:
    body = json.dumps({"ack_id": "a", "publish": [{"topic": "t"}] * 10_000}).encode()
    with pytest.raises(Problem) as refused:
        requests.decoded_ack(body)
    assert refused.value.as_dict()["errors"] == [
        {"field": "publish", "detail": "must have at most 100 items"}
    ]


async def test_other_bodies_of_consumers_with_very_many_values_are_refused() -> None:
    body = b'{"ack_ids":[' + b'"a",' * (2 * MIB // 4 - 10) + b'"a"]}'

    def refuse() -> int:
        with pytest.raises(Problem) as refused:
            decode(body, requests.REJECT)
        return refused.value.status

    assert cpu_ms(refuse)[1] == 400
    assert cpu_ms(refuse)[0] < MAX_CALLBACK_MS


LEASES = [f"lease-{number}" for number in range(100)]
JOBS: list[tuple[Any, Any, dict[str, Any]]] = [
    (
        list[Completion],
        completions_of,
        {"tasks": [{"lease_id": each, "output": [{}] * 9000} for each in LEASES]},
    ),
    (Inputs, inputs_of, {"first_index": 3, "inputs": [[{}] * 9000] * 100}),
    (
        TasksFail,
        failures_of,
        {"tasks": [{"lease_id": each, "error": '"\u00e9"' * 900} for each in LEASES]},
    ),
]


@pytest.mark.parametrize(("kind", "function", "given"), JOBS)
async def test_a_large_body_of_workers_of_jobs(
    kind: Any, function: Any, given: dict[str, Any], process_pool: ProcessPool
) -> None:
    body = json.dumps(given).encode()
    assert len(body) > SMALL_BYTES
    async with measured() as callbacks:
        found = await read_in_worker(process_pool, ACME, kind, function, body)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    assert found == function(body)


async def test_a_body_that_takes_too_long_is_413(
    process_pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.process_pool.LIMIT_S", 0.01)
    with pytest.raises(Problem) as refused:
        await batch_of(process_pool, BATCHES["arrays in data"][0], b"application/json")
    assert (refused.value.status, refused.value.slug) == (413, "body-too-large")
