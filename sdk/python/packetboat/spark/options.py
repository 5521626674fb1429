"""The options of the data source, checked: names and values that mean nothing are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from packetboat.credentials import ClientCredentials, Credentials, StaticToken, TokenFile
from packetboat.options import Options
from packetboat.settings import found
from packetboat.spark.errors import InvalidOption
from packetboat.spark.ranges import Split, read_ranges

T = TypeVar("T")
Edge = Literal["earliest", "latest"]
LaneNumber = tuple[int, int]
"""Partition and lane."""
Place = Edge | int | datetime | Mapping[LaneNumber, int]
"""The place in each lane where a read begins or ends; a lane that a mapping lacks is read
from or to its edge.
"""

ROWS_PER_SPLIT = 100_000
RETRY_FOR_S = 120.0
_NAMES = frozenset(
    {
        "url",
        "token",
        "token_file",
        "client_id",
        "client_secret",
        "topic",
        "partitions",
        "from_offset",
        "to_offset",
        "from_time",
        "to_time",
        "filter",
        "ranges",
        "rows_per_split",
        "max_bytes_per_second",
        "max_rows_per_batch",
        "body_schema",
        "on_truncated",
        "retry_for_seconds",
    }
)
_PLACES = ("from_offset", "to_offset", "from_time", "to_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The messages to read, and the connection to their server."""

    connection: Options
    """Tries nothing twice by itself: reads know better where to go on."""
    topics: tuple[str, ...]
    partitions: frozenset[int] | None
    """The partitions to read; None: all of them."""
    start: Place
    end: Place
    splits: tuple[Split, ...] | None
    """The splits of the option `ranges`, in place of topics and places."""
    filter: str | None
    rows_per_split: int
    max_bytes_per_s: float | None
    max_rows_per_batch: int | None
    body_schema: str | None
    skips_truncated: bool
    retry_for_s: float


def read_options(given: Mapping[str, str], environment: Mapping[str, str]) -> ReadOptions:
    """Return the options from names in any case, as Spark has them.

    Raises InvalidOption, which names the option.
    """
    told = {name.lower(): value for name, value in given.items()}
    unknown = sorted(told.keys() - _NAMES)
    if unknown:
        known = ", ".join(sorted(_NAMES))
        raise InvalidOption(f"no option of packetboat: {', '.join(unknown)} (there are: {known})")
    splits = tuple(read_ranges(told["ranges"])) if "ranges" in told else None
    if splits is not None:
        _refuse_beside_ranges(told)
    elif not _topics(told):
        raise InvalidOption("topic is missing: the name of a topic, or several with commas between")
    return ReadOptions(
        connection=_connection(told, environment),
        topics=_topics(told),
        partitions=_value(told, "partitions", _numbers, None),
        start=_place(told, "from", "earliest"),
        end=_place(told, "to", "latest"),
        splits=splits,
        filter=told.get("filter") or None,
        rows_per_split=_value(told, "rows_per_split", _count, ROWS_PER_SPLIT),
        max_bytes_per_s=_value(told, "max_bytes_per_second", _count, None),
        max_rows_per_batch=_value(told, "max_rows_per_batch", _count, None),
        body_schema=told.get("body_schema") or None,
        skips_truncated=_value(told, "on_truncated", _on_truncated, False),
        retry_for_s=_value(told, "retry_for_seconds", _seconds, RETRY_FOR_S),
    )


def _topics(told: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in told.get("topic", "").split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _refuse_beside_ranges(told: Mapping[str, str]) -> None:
    beside = [name for name in ("topic", "partitions", *_PLACES) if name in told]
    if beside:
        raise InvalidOption(f"ranges says what is read; {', '.join(beside)} cannot stand beside it")


def _connection(told: Mapping[str, str], environment: Mapping[str, str]) -> Options:
    try:
        options = found(told.get("url"), _credentials(told), environment)
    except ValueError as error:
        raise InvalidOption(str(error)) from error
    return options.replace(retry_for_s=0.0)


def _credentials(told: Mapping[str, str]) -> Credentials | None:
    kinds: list[Credentials] = []
    if token := told.get("token"):
        kinds.append(StaticToken(token))
    if path := told.get("token_file"):
        kinds.append(TokenFile(path))
    client_id, secret = told.get("client_id"), told.get("client_secret")
    if bool(client_id) != bool(secret):
        raise InvalidOption("client_id and client_secret go together")
    if client_id and secret:
        kinds.append(ClientCredentials(client_id, secret))
    if len(kinds) > 1:
        raise InvalidOption("give one of token, token_file, and client_id with client_secret")
    return kinds[0] if kinds else None


def _place(told: Mapping[str, str], side: str, edge: Edge) -> Place:
    by_offset, by_time = f"{side}_offset", f"{side}_time"
    if by_offset in told and by_time in told:
        raise InvalidOption(f"give {by_offset} or {by_time}, not both")
    if by_time in told:
        return _value(told, by_time, _moment, edge)
    place = _value(told, by_offset, _offset, edge)
    if isinstance(place, Mapping) and len(_topics(told)) > 1:
        raise InvalidOption(f"{by_offset}: offsets by partition are of one topic, not of several")
    return place


def _value(told: Mapping[str, str], name: str, read: Callable[[str], T], default: Any) -> T:
    if name not in told:
        return default  # type: ignore[no-any-return]  # of the same type, or None where that may be
    try:
        return read(told[name].strip())
    except ValueError as error:
        raise InvalidOption(f"{name}: {error}, not {told[name]!r}") from error


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError("a number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError("seconds, from 0 on")
    return seconds


def _numbers(text: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError("numbers of partitions with commas between")
    return frozenset(map(int, parts))


def _on_truncated(text: str) -> bool:
    if text.lower() not in ("fail", "skip"):
        raise ValueError("fail or skip")
    return text.lower() == "skip"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("a time as of RFC 3339, with its zone")
    return moment


def _offset(text: str) -> Place:
    expected = 'earliest, latest, an offset, or {"partition": offset, "partition/lane": offset}'
    if text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    if text.isdecimal():
        return int(text)
    try:
        by_lane = json.loads(text)
        return {_lane_number(lane): _whole(offset) for lane, offset in by_lane.items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(expected) from error


def _lane_number(text: str) -> LaneNumber:
    partition, _, lane = text.partition("/")
    return int(partition), int(lane or 0)


def _whole(offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise ValueError("an offset")
    return offset
