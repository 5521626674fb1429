"""Writes receipts as JSON text, at a fraction of a microsecond each.

The receipts of a batch differ only in their offsets. So the text before and after the offset is
made once for each partition and batch, and the last characters of a message id come from a table.
"""

from __future__ import annotations

import msgspec

from edge import message_id
from edge.times import rfc3339
from openapi.publish import Receipt

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
"""The base64url of every 12 bits; a message id ends in two, the low 24 bits of its number."""
_LOW_BITS = 24
_LOW_MASK = (1 << _LOW_BITS) - 1


class ReceiptWriter:
    """Writes the receipts of one partition.

    A receipt is `{"message_id", "topic", "partition", "offset", "publish_time", "duplicate"}`; that
    of a staged message has `"scheduled_for", "accepted_time"`, too.
    """

    __slots__ = (
        "_after_id",
        "_before_suffix",
        "_high",
        "_high_text",
        "lane",
        "partition",
        "topic",
        "topic_uid",
    )

    def __init__(self, topic_uid: bytes, topic: str, partition: int, lane: int = 0) -> None:
        self.topic_uid = topic_uid
        self.topic = topic
        self.partition = partition
        self.lane = lane
        self._before_suffix = '{"message_id":"' + message_id.prefix(topic_uid, partition)
        name = msgspec.json.encode(topic).decode()
        self._after_id = f'","topic":{name},"partition":{partition},"offset":'
        self._high = -1
        self._high_text = ""

    def of_partition(self, partition: int, lane: int) -> ReceiptWriter:
        """Return the writer of a partition of the topic, which may be this one."""
        if (partition, lane) == (self.partition, self.lane):
            return self
        return ReceiptWriter(self.topic_uid, self.topic, partition, lane)

    def write(self, base_offset: int, count: int, log_time_us: int, duplicate: bool) -> list[str]:
        """Return the receipts of `count` messages in a row.

        A log time of 0 is not known any more, so their time is null.
        """
        middle = self._after_id
        flag = "true" if duplicate else "false"
        time_json = f'"{rfc3339(log_time_us)}"' if log_time_us else "null"
        tail = f',"publish_time":{time_json},"duplicate":{flag}}}'
        end = base_offset + count
        if (end - 1) >> _LOW_BITS != base_offset >> _LOW_BITS:
            split = ((base_offset >> _LOW_BITS) + 1) << _LOW_BITS
            first = self.write(base_offset, split - base_offset, log_time_us, duplicate)
            return first + self.write(split, end - split, log_time_us, duplicate)
        head = self._head(base_offset)
        pairs = _PAIRS
        return [
            f"{head}{pairs[(n & _LOW_MASK) >> 12]}{pairs[n & 4095]}{middle}{n}{tail}"
            for n in range(base_offset, end)
        ]

    def write_staged(
        self,
        generation: int,
        stage_number: int,
        due_us: int | None,
        accepted_us: int,
        duplicate: bool,
    ) -> str:
        """Return the receipt of a staged message: it has no offset yet, and its id is final."""
        staged_id = message_id.staged(
            self.topic_uid, self.partition, generation, stage_number, self.lane
        )
        receipt = Receipt(
            message_id=str(staged_id),
            topic=self.topic,
            partition=self.partition,
            offset=None,
            publish_time=None,
            duplicate=duplicate,
            scheduled_for=rfc3339(due_us) if due_us is not None else None,
            accepted_time=rfc3339(accepted_us) if accepted_us else None,
        )
        return msgspec.json.encode(receipt).decode()

    def _head(self, offset: int) -> str:
        """Return the text of a receipt up to the last characters of its message id."""
        high = offset >> _LOW_BITS
        if high != self._high:
            self._high = high
            self._high_text = self._before_suffix + message_id.suffix(offset, self.lane)[:-4]
        return self._high_text
