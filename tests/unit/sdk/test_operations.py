"""The SDK covers the whole API: what it sends is as described, and what is described it reads."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from packetboat import calls
from packetboat.calls import Call
from packetboat.transport import Request

from tests.unit.sdk.api_description import Operation, errors, misfits, operations, resolved, sample
from tests.unit.sdk.export_operations import FIXED as OF_EXPORTS_FIXED
from tests.unit.sdk.operations import ASKED, Ask, every_ask, recorded

NOT_CALLED = {
    "pullPost": "pull, with its members in a body",
    "pullTopicSubscription": "pull, by another path",
    "streamTopicSubscription": "stream, by another path",
    "getTopicSubscription": "getSubscription, by another path",
    "deleteTopicSubscription": "deleteSubscription, by another path",
    "root": "a page for people",
    "docs": "a page for people",
    "docsAsset": "a page for people",
    "openapiYaml": "for tools",
    "openapiJson": "for tools",
}
WORKERS = {"claim_tasks", "complete_tasks", "fail_tasks", "release_tasks", "extend_tasks"}
"""Calls of workers, which say but the verb: `claim`, `complete`, …"""
TWICE = {"redrive_dry_run", "publish_early", "replay_arrow"}
"""Calls of an operation that has another call."""
HELPERS = {"page", "fetch", "change", "delete", "stream_call", "waiting"}
FIXED = {"name", "topic", "partitions", "priorities", "delivery", "ordered", "start"}
"""Members that a body may repeat and cannot change."""


def covered() -> dict[str, Operation]:
    return {name: operation for name, operation in operations().items() if name not in NOT_CALLED}


def snake(name: str) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().replace("a_m_i", "am_i")
    return name.removesuffix("_tasks") if name in WORKERS else name


def functions() -> dict[str, Any]:
    """Return the calls, by name."""
    found = {}
    for module in pkgutil.iter_modules(calls.__path__, "packetboat.calls."):
        if module.name == "packetboat.calls.call":
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            kind = str(getattr(value, "__annotations__", {}).get("return", ""))
            if kind.startswith(("Call[", "StreamCall")) and not name.startswith("_"):
                found[name] = value
    return found


def test_every_operation_has_a_call_of_its_name() -> None:
    missing = {snake(name) for name in covered()} - functions().keys()
    assert missing == set()


def test_every_call_is_of_an_operation() -> None:

    known = {snake(name) for name in operations()} | TWICE | HELPERS
    assert functions().keys() - known == set()


def test_the_exceptions_are_operations() -> None:
    assert NOT_CALLED.keys() <= operations().keys()


def test_every_call_is_made_by_a_resource() -> None:
    folder = Path(calls.__path__[0]).parent / "aio"
    used = {
        node.attr
        for path in (*folder.rglob("*.py"),)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    published = {"publish", "publish_batch", "publish_early"}
    assert functions().keys() - used - published - HELPERS == set()


def test_every_operation_is_asked_for_below() -> None:
    assert ASKED.keys() == covered().keys()


@pytest.mark.parametrize(
    ("name", "ask"),
    [(n, ask) for n, _, ask in every_ask()],
    ids=[f"{n}-{i}" for n, i, _ in every_ask()],
)
def test_requests_are_as_described(name: str, ask: Ask) -> None:
    request = recorded(ask).request
    operation = operations()[name]
    assert misfits(operation, request) == []
    assert _body_misfits(operation, request) == []


def _body_misfits(operation: Operation, request: Request) -> list[str]:
    described = operation.described.get("requestBody")
    if described is None:
        return ["a body"] if request.body else []
    described = resolved(described)
    kind = request.headers.get("Content-Type", "").partition(";")[0]
    content = described["content"]
    if not request.body:
        return ["no body"] if described.get("required") else []
    if kind == "application/json" and kind in content:
        return errors(content[kind]["schema"], msgspec.json.decode(request.body))
    if kind == "application/x-www-form-urlencoded" and kind in content:
        return errors(content[kind]["schema"], dict(parse_qsl(request.body.decode())))
    return [] if kind in content or "*/*" in content else [f"content type {kind}"]


def test_parameters_of_operations_can_all_be_given() -> None:
    """`consumer` says what the header Packetboat-Consumer would; keys of trace are not ours.
    A job is changed by what it does, and its tasks are listed whole."""
    apart = {"packetboat-consumer", "traceparent", "tracestate", "packetboat-schema-version"}
    apart |= {"packetboat-deliver-at", "packetboat-producer", "packetboat-sequence", "ticket"}
    of_jobs = {"if-match", "page_token", "first_index"}
    never = {}
    for name, operation in covered().items():
        wanted = {parameter for place, parameter in operation.parameters if place != "path"} - apart
        for ask in ASKED[name]:
            request = recorded(ask).request
            wanted -= {each for each, _ in parse_qsl(request.path.partition("?")[2])}
            wanted -= {each.lower() for each in request.headers}
        if wanted - (of_jobs if operation.tag == "jobs" else set()):
            never[name] = wanted
    assert never == {}


def test_members_of_bodies_can_all_be_given() -> None:
    never = {}
    for name, operation in covered().items():
        content = resolved(operation.described.get("requestBody", {})).get("content", {})
        if "application/json" not in content or name == "publishBatch":
            continue
        wanted = _members(content["application/json"]["schema"])
        wanted -= FIXED if operation.method == "PATCH" else {"name", "topic"}
        wanted -= OF_EXPORTS_FIXED if name == "patchExport" else set()
        for ask in ASKED[name]:
            body = recorded(ask).request.body
            wanted -= set(msgspec.json.decode(body)) if body else set()
        if wanted - {"ack_id", "message_id", "ack_ids", "message_ids"}:
            never[name] = wanted
    assert never == {}


def _members(schema: Mapping[str, Any]) -> set[str]:
    schema = resolved(schema)
    own = set(schema.get("properties", {}))
    more = [_members(each) for kind in ("oneOf", "anyOf", "allOf") for each in schema.get(kind, ())]
    return own.union(*more)


RENAMED = {"acked", "done", "results", "response_types_supported"}
"""Members that have another name in the SDK, or no use."""
READ = [name for name, asks in ASKED.items() if isinstance(recorded(asks[0]), Call)]


@pytest.mark.parametrize("full", [True, False], ids=["all-members", "few-members"])
@pytest.mark.parametrize("name", READ)
def test_answers_are_read(name: str, full: bool) -> None:
    """No member of an answer is lost, and members of later servers do no harm."""
    call = recorded(ASKED[name][0])
    assert isinstance(call, Call)
    for schema in _answers_of(operations()[name], call):
        answer = sample(schema, full)
        assert errors(schema, answer) == []
        known = call.read(msgspec.json.encode(answer))
        later = call.read(msgspec.json.encode(_with_unknown(answer)))
        assert _plain(later) == _plain(known)
        if full:
            assert list(_lost(answer, _plain(known))) == []


def _answers_of(operation: Operation, call: Call[Any]) -> list[Mapping[str, Any]]:
    """Return the answers to this call; a publish that waits gets no publish id, and so on."""
    apart = {
        "publish": ("PublishId", "BatchResults"),  # results are those of a batch of CloudEvents
        "redriveDeadLetters": ("DryRun",),
        "publishBatch": ("BatchResults",),
    }
    others = {f"#/components/schemas/{each}" for each in apart.get(operation.name, ())}

    def is_apart(schema: Mapping[str, Any]) -> bool:
        found = {each.get("$ref") for each in schema.get("anyOf", (schema,))}
        return found <= others

    return [schema for schema in operation.answers() if not is_apart(schema)]


def _with_unknown(answer: Any) -> Any:
    """Add a member to objects that have a fixed set of members; limits are numbers by name."""
    if isinstance(answer, dict) and len(answer) > 1:
        new = {} if answer.keys() & {"topics", "in_flight"} else {"new": {"a": 1}}
        return new | {name: _with_unknown(value) for name, value in answer.items()}
    return [_with_unknown(each) for each in answer] if isinstance(answer, list) else answer


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(value, enc_hook=bytes)))


def _lost(answer: Any, known: Any) -> Sequence[str]:
    """Return the members of the answer that the value lacks, without wrappers of one value."""
    if isinstance(answer, Mapping) and not isinstance(known, Mapping):
        values = [
            each for each in answer.values() if isinstance(each, list) == isinstance(known, list)
        ]
        return _lost(values[0], known) if values and isinstance(known, list) else []
    if isinstance(answer, Mapping) and answer.keys() == {"subscriptions"} and "items" not in known:
        return _lost(answer["subscriptions"], known)
    if isinstance(answer, Mapping) and answer.keys() == {"run"}:
        return _lost(answer["run"], known)
    if isinstance(answer, Mapping):
        return _lost_members(answer, known)
    if isinstance(answer, list) and isinstance(known, list) and answer:
        return _lost(answer[0], known[0])
    return []


def _lost_members(answer: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    lost = []
    for name, value in answer.items():
        if name in known:
            lost += [f"{name}.{each}" for each in _lost(value, known[name])]
        elif isinstance(value, list) and "items" in known:
            lost += [f"{name}.{each}" for each in _lost(value, known["items"])]
        elif name not in RENAMED:
            lost.append(name)
    return lost
