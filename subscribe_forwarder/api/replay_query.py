"""Reads the parameters of replays; every refusal names the parameter."""

from __future__ import annotations

import msgspec

from edge.asgi import Scope, path_param
from edge.expressions import BadExpression, compile_filter
from edge.expressions.ahead import read_ahead
from edge.parameters import Query, integer_of, refused, text_of
from edge.problem import FieldError, Problem, invalid
from metadata.types import Topic
from openapi import topics as contract
from openapi.common import MAX_BYTES, WAIT_SECONDS, Moment
from openapi.consume import MAX_MESSAGES_AT_ONCE
from openapi.contract import Parameter
from subscribe_forwarder.delivery.selection.rule import Rule
from subscribe_forwarder.delivery.selection.variables import Bodies


class ReplayRequest(msgspec.Struct, frozen=True):
    """A replay whose limits hold. Without an `offset` and a `time_us` it begins at the first
    message. Nothing at or after `end_offset` is read."""

    offset: int | None
    end_offset: int | None
    time_us: int | None
    lane: int
    max_messages: int
    max_bytes: int
    wait_s: float
    filter: Rule | None


async def replay_of(scope: Scope, *, streams: bool) -> ReplayRequest:
    """Return the replay of a query. Raise a 400 Problem. A stream has no limit of bytes."""
    query = Query(scope)
    offset = _integer(query, contract.REPLAY_OFFSET)
    time_us = _time_us(query, contract.REPLAY_TIME)
    if offset is not None and time_us is not None:
        raise refused(contract.REPLAY_TIME, "either an offset or a time")
    most = _integer(query, contract.REPLAY_MAX_MESSAGES)
    if most is None:
        most = contract.MAX_STREAMED if streams else contract.REPLAYED
    return ReplayRequest(
        offset=offset,
        end_offset=_integer(query, contract.REPLAY_END_OFFSET),
        time_us=time_us,
        lane=query.integer(contract.LANE),
        max_messages=most if streams else min(most, MAX_MESSAGES_AT_ONCE),
        max_bytes=query.integer(MAX_BYTES),
        wait_s=query.number(WAIT_SECONDS),
        filter=await _filter(scope, query),
    )


def moment_of(scope: Scope) -> tuple[int, int]:
    """Return the time of a query, which must be there, and the lane. Raise a 400 Problem."""
    query = Query(scope)
    time_us = _time_us(query, contract.REQUIRED_TIME)
    if time_us is None:
        raise refused(contract.REQUIRED_TIME, "required")
    return time_us, query.integer(contract.LANE)


def _integer(query: Query, parameter: Parameter) -> int | None:
    return integer_of(parameter, query.text(parameter.name))


def _time_us(query: Query, parameter: Parameter) -> int | None:
    text = query.text(parameter.name)
    if text is None:
        return None
    try:
        # A plus sign that was not percent-encoded arrives as a space.
        moment = msgspec.convert(text.replace(" ", "+"), Moment)
        return max(0, int(moment.timestamp() * 1_000_000))
    except (msgspec.ValidationError, OverflowError):
        raise refused(parameter, "a time as of RFC 3339, with its zone") from None


async def _filter(scope: Scope, query: Query) -> Rule | None:
    text = text_of(contract.REPLAY_FILTER, query.text(contract.REPLAY_FILTER.name))
    if text is None:
        return None
    await read_ahead(scope, text)
    try:
        compile_filter(text)
        return Rule(text, Bodies())
    except BadExpression as error:
        raise refused(contract.REPLAY_FILTER, str(error)) from error


def partition_of(scope: Scope, topic: Topic, lane: int = 0) -> int:
    """Return the partition that the path names. Raise a 404 Problem, and a 400 one for a lane that
    the topic does not have."""
    text = path_param(scope, "partition")
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise no_partition(text)
    if int(text) >= topic.partition_count:
        raise no_partition(text)
    if lane >= topic.priorities:
        raise invalid(
            "A query parameter does not fit.",
            [FieldError("lane", f"below {topic.priorities}, the priorities of this topic")],
            status=400,
        )
    return int(text)


def no_partition(text: str) -> Problem:
    return Problem.of("partition-not-found", f"There is no partition {text!r}.")
