"""The cost of definitions and bodies on the event loop that serves everybody: proof 2 of the audit.

Nothing that a tenant writes takes longer in one callback than is promised. Work that may take
longer is done in another process, and is told apart from cheap work before it is begun.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import process_pool as process_pool_module
from edge.problem import Problem
from edge.process_pool import ProcessPool
from edge.quota import QuotaRefusal, rate_limited
from schemas import checker as checker_module
from schemas.checker import Checker
from schemas.limits import BadDefinition, CannotCompare
from schemas.message_check import SchemaCheck
from schemas.price import MAX_STATES, automaton_states
from store_nodes.record_batch import Message
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.schemas.test_message_check import TOPIC, Source

ACME = bytes(16)
JSON, AVRO = "application/json", "avro/binary"
_AB = "".join(random.Random(1).choices("ab", k=16_000))
NULLS = json.dumps({"type": "array", "items": "null"})
EMPTY_RECORDS = json.dumps(
    {
        "type": "array",
        "items": {
            "type": "record",
            "name": "R",
            "fields": [{"name": f"f{number}", "type": "null"} for number in range(50)],
        },
    }
)


def zigzag(number: int) -> bytes:
    number <<= 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def array(item: str, count: int) -> bytes:
    return f"[{','.join([item] * count)}]".encode()


def text(value: str) -> bytes:
    return f'"{value}"'.encode()


HOSTILE: dict[str, tuple[Any, bytes]] = {
    "an automaton of thousands of states": ({"pattern": "(?:a|b)*a(?:a|b){4000}c"}, text(_AB)),
    "patterns of hundreds of states": (
        {"allOf": [{"pattern": f"(?:a|b)*a(?:a|b){{{100 + n}}}c"} for n in range(9)]},
        text(_AB),
    ),
    "a body that is long to decode": ({"items": {"type": "integer"}}, array("1", 500_000)),
    "many subschemas for each value": (
        {"items": {"allOf": [{"minimum": number} for number in range(-1900, 0)]}},
        array("1", 40_000),
    ),
    "more errors than anybody reads": (
        {"items": {"required": [f"p{number}" for number in range(300)]}},
        array("{}", 5_000),
    ),
    "large numbers and fractions": ({"items": {"multipleOf": 0.01}}, array("1e300", 20_000)),
    "texts that are compiled as patterns": (
        {"items": {"format": "regex"}},
        json.dumps([rf"\\w{{{400 + n}}}" for n in range(200)]).encode(),
    ),
    "objects that are compared with each of many": (
        {"items": {"enum": [{f"a{n}": n} for n in range(5_000)]}},
        array('{"a4999":4999}', 5_000),
    ),
    "a large definition": (
        {"items": {"properties": {f"p{n}": {"type": "string"} for n in range(1990)}}},
        array("{}", 44_000),
    ),
    "a long pattern": ({"pattern": "abcdefghij" * 10_000}, text("a")),
    "alternatives that are all tried": (
        {"items": {"oneOf": [{"minimum": n} for n in range(1900)]}},
        array("1", 20_000),
    ),
    "members with many patterns": (
        {"patternProperties": {f"^a[b-z]*{n}": {"type": "string"} for n in range(300)}},
        json.dumps({f"a{n}": "" for n in range(8_000)}).encode(),
    ),
}


@pytest.fixture
async def process_pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProcessPool]:
    monkeypatch.setattr(process_pool_module, "LIMIT_S", 0.5)
    made = ProcessPool()
    yield made
    await made.close()


async def test_no_publish_with_a_json_schema_takes_long_in_one_callback(
    process_pool: ProcessPool,
) -> None:
    longest_ms: dict[str, float] = {}
    for number, (what, (definition, body)) in enumerate(HOSTILE.items()):
        check = SchemaCheck(Source(definition), process_pool)
        topic = replace(TOPIC, tenant_id=number.to_bytes(16, "big"))
        async with measured() as callbacks:
            for _ in range(2):
                with suppress(Problem):
                    await check.refuse(topic, Message(body, content_type=JSON))
        longest_ms[what] = callbacks.longest_ms
    assert {what: ms for what, ms in longest_ms.items() if ms >= MAX_CALLBACK_MS} == {}


AVRO_BODIES = [
    (NULLS, zigzag(99_990) + b"\0", True),
    (EMPTY_RECORDS, zigzag(99_990) + b"\0", True),
    (NULLS, zigzag(100_001) + b"\0", False),
    ('{"type":"array","items":"long"}', zigzag(99_000) + b"\2" * 99_000 + b"\0", True),
    ('{"type":"array","items":["null","long"]}', zigzag(49_000) + bytes(49_001), True),
]


async def test_no_avro_body_takes_long_in_one_callback(process_pool: ProcessPool) -> None:
    checker = Checker(process_pool)
    async with measured() as callbacks:
        for definition, body, valid in AVRO_BODIES:
            errors = await checker.check(ACME, "avro", definition, body, AVRO)
            assert (not errors) is valid
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_a_batch_of_small_bodies_takes_turns_with_others() -> None:
    """200 Avro arrays of nothing took 8 s; a batch of bodies that each are cheap is cut."""
    source = Source({"items": {"type": "integer"}})
    check = SchemaCheck(source)
    entries = [Message(array("1", 2_000), content_type=JSON) for _ in range(300)]
    async with measured() as callbacks:
        assert await check.checked(TOPIC, list(entries)) == entries
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_no_definition_takes_long_in_one_callback(process_pool: ProcessPool) -> None:
    checker = Checker(process_pool)
    fields = [{"name": f"f{n}", "type": ["null", "string"], "default": None} for n in range(2_000)]
    definitions = [("json_schema", json.dumps(definition)) for definition, _ in HOSTILE.values()]
    definitions.append(
        ("avro", json.dumps({"type": "record", "name": "R", "fields": fields})),
    )
    async with measured() as callbacks:
        for kind, definition in definitions:
            try:
                await checker.compile(ACME, kind, definition)
                await checker.compare(ACME, kind, "full", definition, definition + " ")
            except (BadDefinition, CannotCompare):
                continue
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_a_body_that_takes_too_long_is_refused_and_says_so(
    process_pool: ProcessPool,
) -> None:
    definition, body = HOSTILE["an automaton of thousands of states"]
    errors = await Checker(process_pool).check(
        ACME, "json_schema", json.dumps(definition), body, JSON
    )
    assert [error.detail for error in errors] == [
        "takes more than 2 s of computing time to be checked with this schema"
    ]


async def test_what_is_refused_takes_from_the_quota() -> None:
    taken: list[tuple[bytes, int, int]] = []

    def charge(tenant_id: bytes, messages: int, size_bytes: int) -> None:
        taken.append((tenant_id, messages, size_bytes))
        if len(taken) > 2:
            raise rate_limited(QuotaRefusal("publish_messages_per_second", 1.0, 1.0, ()))

    check = SchemaCheck(Source({"type": "integer"}), charge=charge)
    bad, good = Message(b'"x"', content_type=JSON), Message(b"1", content_type=JSON)
    judged = await check.checked(TOPIC, [bad, good])
    assert isinstance(judged[0], Problem)
    assert taken == [(TOPIC.tenant_id, 1, 3)]
    with pytest.raises(Problem, match="used up its limit"):
        await check.checked(TOPIC, [bad, bad, bad])


async def test_what_is_cheap_is_not_sent_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary schema and body: no other process has to do with it."""

    def never(*_: object) -> None:
        raise AssertionError("it was sent to a worker")

    monkeypatch.setattr(checker_module, "checked", never)
    ordinary = {
        "type": "object",
        "required": ["id", "at", "items"],
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
            "at": {"type": "string", "format": "date-time"},
            "state": {"enum": ["open", "paid", "sent"]},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "count": {"minimum": 1}},
                },
            },
        },
    }
    items = [{"sku": f"sku-{n}", "count": n + 1} for n in range(200)]
    body = {"id": "AB-123456", "at": "2026-01-01T00:00:00Z", "state": "open", "items": items}
    checker = Checker()
    for sent in (body, body | {"items": [], "state": "lost"}):
        await checker.check(
            ACME, "json_schema", json.dumps(ordinary), json.dumps(sent).encode(), JSON
        )


@given(st.from_regex(r"([ab.^$]|\[\^?[ab]+\]|\\[dwsS]|\((a|b)\)\{[0-9]{1,2}(,[0-9]{0,2})?\}){0,9}"))
def test_any_pattern_has_a_bounded_number_of_states(pattern: str) -> None:
    assert 0 <= automaton_states(pattern) <= MAX_STATES


@pytest.mark.parametrize(
    ("pattern", "at_least"),
    [
        ("(?:a|b)*a(?:a|b){4000}c", 8_000),
        ("((a{100}){100}){100}", 1_000_000),
        (r"[\p{L}]{300}", 30_000),
        (r"\x{4000}", 4_000),
        ("[[]{4000}", 4_000),
        ("[^]a]{4000}", 4_000),
        ("(?x)a {4000}", 4_000),
        ("a{4000}" * 600, MAX_STATES),
        (")", MAX_STATES),
    ],
)
def test_no_pattern_hides_its_states(pattern: str, at_least: int) -> None:
    assert automaton_states(pattern) >= at_least


def test_ordinary_patterns_have_few_states() -> None:
    assert automaton_states("^[0-9]{4}-[0-9]{2}-[0-9]{2}$") < 20
    assert automaton_states(r"^[\w.+-]+@[\w.-]+\.[a-z]{2,4}$") < 20


async def test_validating_waits_for_others(process_pool: ProcessPool) -> None:
    """One tenant's heavy bodies do not keep another's light ones from being checked."""
    definition, body = HOSTILE["a body that is long to decode"]
    checker = Checker(process_pool)
    heavy = [
        asyncio.create_task(checker.check(ACME, "json_schema", json.dumps(definition), body, JSON))
        for _ in range(6)
    ]
    await asyncio.sleep(0)
    other = await checker.check(b"o" * 16, "json_schema", '{"items":{}}', body, JSON)
    assert not heavy[-1].done()
    assert other == []
    await asyncio.gather(*heavy)
