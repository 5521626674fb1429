"""Strict reading of a replay's parameters; every refusal names the parameter."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated
from urllib.parse import parse_qs

import msgspec

from edge.asgi import Scope, path_param
from edge.expressions import BadExpression, compile_filter
from edge.problem import FieldError, Problem, invalid
from metadata.types import Topic
from subscribe_forwarder.api.requests import MAX_BYTES, MAX_MESSAGES, MAX_WAIT_S
from subscribe_forwarder.selection.rule import Rule
from subscribe_forwarder.selection.variables import Bodies

MAX_STREAMED = 1_000_000
MAX_OFFSET = 2**53
MAX_LANE = 9
_DEFAULT_MESSAGES = 100
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ReplayRequest(msgspec.Struct, frozen=True):
    """A replay whose limits hold; neither `offset` nor `time_us`: from the first on. Nothing at or
    after `end_offset` is read."""

    offset: int | None
    end_offset: int | None
    time_us: int | None
    lane: int
    max_messages: int
    max_bytes: int
    wait_s: float
    filter: Rule | None


class ReplayQuery:
    """The parameters; the last of a repeated one counts."""

    def __init__(self, scope: Scope) -> None:
        raw = scope["query_string"].decode("ascii", "replace")
        self._values = parse_qs(raw, keep_blank_values=True, errors="replace")
        self._errors: list[FieldError] = []

    def request(self, *, streams: bool) -> ReplayRequest:
        """400 naming what does not fit. What is streamed has no limit of bytes."""
        offset = self._integer("offset", None, 0, MAX_OFFSET)
        end_offset = self._integer("end_offset", None, 0, MAX_OFFSET)
        time_us = self._time_us()
        if offset is not None and time_us is not None:
            self._errors.append(FieldError("time", "either an offset or a time"))
        most = self._integer(
            "max_messages", MAX_STREAMED if streams else _DEFAULT_MESSAGES, 1, MAX_STREAMED
        )
        max_bytes = self._integer("max_bytes", MAX_BYTES, 1, MAX_BYTES)
        lane = self._integer("lane", 0, 0, MAX_LANE)
        request = ReplayRequest(
            offset=offset,
            end_offset=end_offset,
            time_us=time_us,
            lane=lane or 0,
            max_messages=(most or 1) if streams else min(most or 1, MAX_MESSAGES),
            max_bytes=max_bytes or 1,
            wait_s=self._wait_s(),
            filter=self._filter(),
        )
        self._check()
        return request

    def moment_us(self) -> tuple[int, int]:
        """The time asked for, which must be there, and the lane."""
        time_us = self._time_us()
        if time_us is None and not self._errors:
            self._errors.append(FieldError("time", "required"))
        lane = self._integer("lane", 0, 0, MAX_LANE)
        self._check()
        return time_us or 0, lane or 0

    def _check(self) -> None:
        if self._errors:
            raise invalid("A query parameter does not fit.", self._errors, status=400)

    def _text(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[-1] if values else None

    def _integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        text = self._text(name)
        if text is None:
            return default
        if re.fullmatch(r"[0-9]{1,18}", text) and low <= int(text) <= high:
            return int(text)
        self._errors.append(FieldError(name, f"an integer from {low} to {high}"))
        return default

    def _wait_s(self) -> float:
        text = self._text("wait_seconds")
        if text is None:
            return 0.0
        if _DECIMAL.fullmatch(text) and float(text) <= MAX_WAIT_S:
            return float(text)
        self._errors.append(FieldError("wait_seconds", f"seconds from 0 to {MAX_WAIT_S:g}"))
        return 0.0

    def _time_us(self) -> int | None:
        text = self._text("time")
        if text is None:
            return None
        try:
            # A plus sign that was not percent-encoded arrives as a space.
            moment = msgspec.convert(text.replace(" ", "+"), _Moment)
            return max(0, int(moment.timestamp() * 1_000_000))
        except (msgspec.ValidationError, OverflowError):
            self._errors.append(FieldError("time", "a time as of RFC 3339, with its zone"))
            return None

    def _filter(self) -> Rule | None:
        text = self._text("filter")
        if text is None:
            return None
        try:
            compile_filter(text)
            return Rule(text, Bodies())
        except BadExpression as error:
            self._errors.append(FieldError("filter", str(error)))
            return None


def partition_of(scope: Scope, topic: Topic, lane: int = 0) -> int:
    """The partition that the path names; 404, and 400 for a lane that the topic does not have."""
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
    return Problem(
        404, "partition-not-found", "No such partition", f"There is no partition {text!r}."
    )
