"""Every operation of the API as a value, one module for each area; nothing here does I/O."""

from __future__ import annotations

from packetboat.calls.call import TIMEOUT_S, Call, StreamCall, failure
from packetboat.calls.consuming import Ids, ack, modify_ack_deadline, nack, pull, release
from packetboat.calls.publishing import (
    Producer,
    cancel,
    encode_data,
    publish,
    publish_batch,
    publish_early,
    reschedule,
)
from packetboat.calls.subscriptions import (
    create_subscription,
    delete_subscription,
    get_subscription,
    list_subscriptions,
)
from packetboat.calls.topics import create_topic, delete_topic, get_topic, list_topics

__all__ = [
    "TIMEOUT_S",
    "Call",
    "Ids",
    "Producer",
    "StreamCall",
    "ack",
    "cancel",
    "create_subscription",
    "create_topic",
    "delete_subscription",
    "delete_topic",
    "encode_data",
    "failure",
    "get_subscription",
    "get_topic",
    "list_subscriptions",
    "list_topics",
    "modify_ack_deadline",
    "nack",
    "publish",
    "publish_batch",
    "publish_early",
    "pull",
    "release",
    "reschedule",
]
