"""Problems for a failed append or lookup: they say whether it is not done or unknown, and what to
do.
"""

from __future__ import annotations

from appending.sender import NotTaken, Stopping
from edge.problem import Problem, not_found, unavailable
from metadata.errors import MetadataError, MetadataUnavailable, NotFound
from metadata.types import Topic
from store_nodes.errors import (
    DiskFull,
    NotDone,
    NotSupported,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    StoreError,
    TooLarge,
)


def is_of_topic(error: StoreError) -> bool:
    """Return whether the queue is gone or closed, so that the cached topic is out of date."""
    return isinstance(error, QueueNotFound | QueueSealed)


def problem_of(error: StoreError, *, repeatable: bool = False) -> Problem:
    """Return the problem for a publisher; its `outcome` says whether the message may be stored.

    `repeatable` says that the log knows the message by its id, so that it may be published again.
    """
    if not isinstance(error, NotDone):
        advice = (
            "Publishing it again in the same way stores it at most once."
            if repeatable
            else "Publishing it again may store it twice."
        )
        return Problem.of(
            "outcome-unknown",
            f"The message may or may not be stored: the log did not answer in time. {advice}",
            extra={"outcome": "unknown"},
        )
    if isinstance(error, DiskFull):
        return _not_done("storage-full", _sentence(error), 30)
    if isinstance(error, Overloaded):
        return _not_done("store-overloaded", "The store is busy.", 1)
    if isinstance(error, TooLarge):
        return _not_done("message-too-large", str(error))
    if isinstance(error, QueueNotFound | QueueSealed):
        detail = "The topic was deleted or moved while this was published."
        return _not_done("topic-changed", detail, 1)
    if isinstance(error, Stopping):
        return stopping()
    if isinstance(error, NotTaken):
        return _not_done("partition-unavailable", str(error), 1)
    if isinstance(error, NotSupported):
        return _not_done("not-supported", str(error))
    detail = f"The partition had no leader in time ({error})."
    return _not_done("partition-unavailable", detail, 1)


def _sentence(error: StoreError) -> str:
    """Make a sentence of a node's error, which is only a part of one."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def stopping() -> Problem:
    return _not_done("stopping", "This forwarder is shutting down.", 1)


def topic_changed() -> Problem:
    return problem_of(QueueNotFound("gone"))


def topic_full(topic: Topic) -> Problem:
    """Return the 507 for a full topic or tenant; nothing was accepted."""
    detail = topic.full_detail or "A limit on what is stored is reached."
    if topic.full == "tenant-full":
        return _not_done("tenant-full", detail, 30)
    return _not_done("topic-full", detail, 30)


def problem_of_lookup(error: MetadataError, topic: str) -> Problem:
    """Return the problem for a topic that the catalog could not find."""
    if isinstance(error, NotFound):
        return not_found("topic", topic)
    retry_after_s = error.retry_after_s if isinstance(error, MetadataUnavailable) else 1.0
    return unavailable(
        "metadata",
        f"The topic {topic!r} is not known here and the metadata store cannot be asked now.",
        retry_after_s,
    )


def _not_done(slug: str, detail: str, retry_after_s: float | None = None) -> Problem:
    text = f"{detail} The message is not stored."
    extra = {"outcome": "not_done"}
    return Problem.of(slug, text, retry_after_s=retry_after_s, extra=extra)
