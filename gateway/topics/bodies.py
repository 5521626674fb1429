"""Topics between the API and the rows: the rules across fields, changes and views."""

from __future__ import annotations

from msgspec import UNSET

from edge.problem import FieldError, Problem, invalid
from gateway.http.merge_patch import create_of, merged_into, put_of
from gateway.names import label_errors, name_errors
from metadata.types import Retention, Topic, TopicSpec
from openapi import topics as contract
from openapi.contract import Body

MAX_QUEUES = 1024
"""Partitions times priorities: each lane of a partition is a queue of its own."""


def new_spec(body: contract.TopicCreate) -> TopicSpec:
    """Return the topic that a body asks for. Raise a 422 Problem."""
    errors = name_errors(body.name) + label_errors(body.labels)
    errors += queue_errors(body.partitions, body.priorities)
    if errors:
        raise invalid("The body does not fit.", errors)
    return _spec(body, body.name, body.priorities)


def to_create(body: contract.TopicPut, name: str) -> contract.TopicCreate:
    """Return the body that creates the topic of a PUT. Raise a 409 Problem where the body names
    another topic than the path."""
    if body.name is not UNSET and body.name != name:
        raise immutable("name", f"it is {name!r} by the path")
    return create_of(body, contract.TopicCreate, name)


def patched(patch: Body, topic: Topic) -> contract.TopicPut:
    """Return what a patch asks for of a topic. Raise a 422 Problem."""
    present = put_of(view(topic), contract.TopicPut)
    body = merged_into(patch, present)
    check(body, present)
    return body


def check(body: contract.TopicPut, present: contract.TopicPut | None = None) -> None:
    """Raise a 422 Problem for a body that fits no topic. Parts that stay as they are in `present`
    are not looked at: rules for new ones may be stricter."""
    errors = []
    if present is None or body.labels != present.labels:
        errors += label_errors(body.labels)
    if body.name is not UNSET and (present is None or body.name != present.name):
        errors += name_errors(body.name)
    if errors:
        raise invalid("The body does not fit.", errors)


def changed(body: contract.TopicPut, topic: Topic) -> TopicSpec:
    """Return the changed topic. Raise a 409 Problem for a field that cannot change."""
    if body.name is not UNSET and body.name != topic.name:
        raise immutable("name", f"it is {topic.name!r}")
    count = topic.partition_count
    if body.partitions is not UNSET and body.partitions != count:
        raise immutable("partitions", f"there are {count}; POST /topics/{{topic}}:grow adds some")
    if body.priorities is not UNSET and body.priorities != topic.priorities:
        raise immutable("priorities", f"there are {topic.priorities}")
    return _spec(body, topic.name, topic.priorities)


def _spec(body: contract.TopicPut, name: str, priorities: int) -> TopicSpec:
    kept = body.retention
    return TopicSpec(
        name,
        Retention(kept.mode, kept.seconds, kept.bytes, kept.on_limit),
        body.dedup_window_seconds,
        body.labels,
        priorities,
        body.ack_history,
        body.schema,
    )


def spec_of(topic: Topic) -> TopicSpec:
    """Return what a caller would have to ask for to get the topic."""
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
    """Return the 409 of a field that was given another value than it has for ever."""
    return Problem.of(
        "immutable-field",
        f"{field} cannot be changed: {detail}.",
        errors=[FieldError(field, detail)],
    )


def view(topic: Topic) -> contract.Topic:
    """Return a topic as the API shows it."""
    return contract.Topic(
        name=topic.name,
        partitions=topic.partition_count,
        priorities=topic.priorities,
        retention=contract.TopicRetention(
            mode=topic.retention.mode,
            seconds=topic.retention.seconds,
            bytes=topic.retention.bytes,
            on_limit=topic.retention.on_limit,
        ),
        full=topic.full_detail if topic.full is not None else None,
        dedup_window_seconds=topic.dedup_window_s,
        ack_history=topic.ack_history,
        schema=topic.schema,
        labels=dict(topic.labels),
        created_at=topic.created_at,
        updated_at=topic.updated_at,
    )
