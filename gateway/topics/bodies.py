"""A topic in JSON: what makes one, what changes one, what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge.problem import FieldError, Problem, invalid
from gateway.http.merge_patch import Patch, merged
from gateway.names import label_errors, name_errors
from metadata.types import OnLimit, Retention, RetentionMode, Topic, TopicSpec

MAX_PARTITIONS = 256
MAX_PRIORITIES = 10
MAX_QUEUES = 1024
"""Partitions times priorities: each lane of a partition is a queue of its own."""
MIN_RETENTION_S = 600
MAX_RETENTION_S = 365 * 86_400
MAX_DEDUP_WINDOW_S = 86_400
DEFAULT_PARTITIONS = 4
DEFAULT_DEDUP_WINDOW_S = 600

Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
RetentionSeconds = Annotated[int, msgspec.Meta(ge=MIN_RETENTION_S, le=MAX_RETENTION_S)]
Partitions = Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITIONS)]
Priorities = Annotated[int, msgspec.Meta(ge=1, le=MAX_PRIORITIES)]
DedupWindow = Annotated[int, msgspec.Meta(ge=0, le=MAX_DEDUP_WINDOW_S)]


class RetentionBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long messages stay. Null: seven days, and as many bytes as the tenant may store."""

    mode: Literal["consume", "retain"] = "consume"
    seconds: RetentionSeconds | None = None
    bytes: Bytes | None = None
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"

    def retention(self) -> Retention:
        return Retention(RetentionMode(self.mode), self.seconds, self.bytes, OnLimit(self.on_limit))


class TopicCreate(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /topics` takes."""

    name: str
    partitions: Partitions = DEFAULT_PARTITIONS
    priorities: Priorities = 1
    retention: RetentionBody = msgspec.field(default_factory=RetentionBody)
    dedup_window_seconds: DedupWindow = DEFAULT_DEDUP_WINDOW_S
    ack_history: bool = False
    schema: str | None = None
    labels: dict[str, str] = {}

    def spec(self) -> TopicSpec:
        """Raises a 422 Problem."""
        errors = name_errors(self.name) + label_errors(self.labels)
        errors += queue_errors(self.partitions, self.priorities)
        if errors:
            raise invalid("The body does not fit.", errors)
        return TopicSpec(
            self.name,
            self.retention.retention(),
            self.dedup_window_seconds,
            self.labels,
            self.priorities,
            self.ack_history,
            self.schema,
        )


class TopicPut(msgspec.Struct, forbid_unknown_fields=True):
    """What `PUT /topics/{topic}` takes: the whole topic. What cannot be changed may be left out."""

    name: str | UnsetType = UNSET
    partitions: Partitions | UnsetType = UNSET
    priorities: Priorities | UnsetType = UNSET
    retention: RetentionBody = msgspec.field(default_factory=RetentionBody)
    dedup_window_seconds: DedupWindow = DEFAULT_DEDUP_WINDOW_S
    ack_history: bool = False
    schema: str | None = None
    labels: dict[str, str] = {}

    def to_create(self, name: str) -> TopicCreate:
        """Of a topic that is not there; 409 when the body names another."""
        if self.name is not UNSET and self.name != name:
            raise immutable("name", f"it is {name!r} by the path")
        return TopicCreate(
            name,
            DEFAULT_PARTITIONS if self.partitions is UNSET else self.partitions,
            1 if self.priorities is UNSET else self.priorities,
            self.retention,
            self.dedup_window_seconds,
            self.ack_history,
            self.schema,
            self.labels,
        )


class TopicPatch(msgspec.Struct, forbid_unknown_fields=True):
    """What `PATCH /topics/{topic}` takes, merged into the topic (`patched`)."""

    name: str | UnsetType = UNSET
    partitions: Partitions | UnsetType = UNSET
    priorities: Priorities | UnsetType = UNSET
    retention: RetentionBody | UnsetType = UNSET
    dedup_window_seconds: DedupWindow | UnsetType = UNSET
    ack_history: bool | UnsetType = UNSET
    schema: str | UnsetType | None = UNSET
    labels: dict[str, str] | UnsetType = UNSET


def patched(patch: Patch, topic: Topic) -> TopicPatch:
    """Raises a 422 Problem."""
    body = merged(patch, view(topic), TopicPatch, TopicPut)
    check(body)
    return body


def check(body: TopicPut | TopicPatch) -> None:
    """What is wrong whatever the topic is: a 422 Problem."""
    errors = label_errors(body.labels) if body.labels is not UNSET else []
    if body.name is not UNSET:
        errors += name_errors(body.name)
    if errors:
        raise invalid("The body does not fit.", errors)


def changed(body: TopicPut | TopicPatch, topic: Topic) -> TopicSpec:
    """What the topic becomes; 409 for what cannot change."""
    _check_immutable(body, topic)
    spec = spec_of(topic)
    if body.labels is not UNSET:
        spec = replace(spec, labels=body.labels)
    if body.retention is not UNSET:
        spec = replace(spec, retention=body.retention.retention())
    if body.dedup_window_seconds is not UNSET:
        spec = replace(spec, dedup_window_s=body.dedup_window_seconds)
    if body.ack_history is not UNSET:
        spec = replace(spec, ack_history=body.ack_history)
    if body.schema is not UNSET:
        spec = replace(spec, schema=body.schema)
    return spec


def spec_of(topic: Topic) -> TopicSpec:
    """What a caller would have to ask for to get it."""
    return TopicSpec(
        topic.name,
        topic.retention,
        topic.dedup_window_s,
        dict(topic.labels),
        topic.priorities,
        topic.ack_history,
        topic.schema,
    )


def queue_errors(partitions: int, priorities: int) -> list[FieldError]:
    if partitions * priorities <= MAX_QUEUES:
        return []
    detail = f"at most {MAX_QUEUES} queues: partitions times priorities"
    return [FieldError("partitions", detail)]


def immutable(field: str, detail: str) -> Problem:
    """409: the field was given another value than it has for ever."""
    return Problem(
        409,
        "immutable-field",
        "The field cannot be changed",
        f"{field} cannot be changed: {detail}.",
        errors=[FieldError(field, detail)],
    )


def _check_immutable(body: TopicPut | TopicPatch, topic: Topic) -> None:
    if body.name is not UNSET and body.name != topic.name:
        raise immutable("name", f"it is {topic.name!r}")
    count = topic.partition_count
    if body.partitions is not UNSET and body.partitions != count:
        raise immutable("partitions", f"there are {count}; POST /topics/{{topic}}:grow adds some")
    if body.priorities is not UNSET and body.priorities != topic.priorities:
        raise immutable("priorities", f"there are {topic.priorities}")


def view(topic: Topic) -> dict[str, Any]:
    """A topic as the API shows it."""
    return {
        "name": topic.name,
        "partitions": topic.partition_count,
        "priorities": topic.priorities,
        "retention": {
            "mode": topic.retention.mode.value,
            "seconds": topic.retention.seconds,
            "bytes": topic.retention.bytes,
            "on_limit": topic.retention.on_limit.value,
        },
        "full": topic.full_detail if topic.full is not None else None,
        "dedup_window_seconds": topic.dedup_window_s,
        "ack_history": topic.ack_history,
        "schema": topic.schema,
        "labels": dict(topic.labels),
        "created_at": topic.created_at,
        "updated_at": topic.updated_at,
    }
