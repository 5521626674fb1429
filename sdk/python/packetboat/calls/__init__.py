"""Every operation of the API as a value, by subject; nothing here does I/O.

A call is named as its operation is in the API's description: `createTopic`, `create_topic`.
"""

from __future__ import annotations

from packetboat.calls.call import TIMEOUT_S, Call, StreamCall, failure
from packetboat.calls.consuming import Ids
from packetboat.calls.publishing import (
    Producer,
    publish,
    publish_batch,
    publish_early,
)

__all__ = [
    "TIMEOUT_S",
    "Call",
    "Ids",
    "Producer",
    "StreamCall",
    "failure",
    "publish",
    "publish_batch",
    "publish_early",
]
