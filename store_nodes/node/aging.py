"""The stored data of this node that is still wanted, as its machines say; for `storage.Storage`."""

from __future__ import annotations

from collections.abc import Mapping

from store_nodes.errors import QueueNotFound
from store_nodes.node.group import Group
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.life import Life, QueueLife
from store_nodes.storage.storage import StorageSettings
from store_nodes.storage.victims import Rules


def storage_settings(settings: StoreNodeSettings) -> StorageSettings:
    """Return the settings of the storage, from those of the node."""
    rules = Rules(segment_bytes=settings.segment_bytes, lag_cap_bytes=settings.lag_cap_bytes)
    return StorageSettings(
        rules=rules,
        compaction_rate=settings.copy_bytes_per_s,
        scrub_rate=settings.scrub_bytes_per_s,
    )


def life_of(groups: Mapping[int, Group]) -> Life:
    """Return the life of stored data, which asks the present groups each time.

    Batches of a queue that no machine knows are wanted, because an install brings batches before
    their queue.
    """

    def home(queue: bytes) -> Group | None:
        for group in groups.values():
            try:
                group.machine.offsets(queue)
            except QueueNotFound:
                continue
            return group
        return None

    def is_deleted(queue: bytes) -> bool:
        return any(group.machine.is_deleted(queue) for group in groups.values())

    def queue_life(queue: bytes) -> QueueLife | None:
        group = home(queue)
        if group is not None:
            machine = group.machine
            return QueueLife(group.id, machine.offsets(queue).first, machine.kept(queue))
        return None if is_deleted(queue) else QueueLife(0, 0, ())

    def staged_live(queue: bytes, base: int, messages: int) -> bool:
        group = home(queue)
        if group is None:
            return not is_deleted(queue)
        if base + messages > group.machine.offsets(queue).stage_end:
            return True
        return group.machine.staged_live(queue, base, messages)

    def floor(group: int) -> int | None:
        found = groups.get(group)
        if found is None or not found.replica.state.membership.members:
            return None
        return min(found.replica.state.everywhere, found.machine.applied)

    def applied(group: int) -> int | None:
        found = groups.get(group)
        return found.machine.applied if found is not None else None

    return Life(queue_life, staged_live, floor, applied)
