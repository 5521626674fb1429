"""What this node remembers of its peers, and whom it lets back in: the file `peers.json`.

A node that lost its disk, or came back with an old copy of it, has forgotten promises that others
rely on. It must not take part under its old id, and it cannot know that by itself; its peers can.
Each remembers of each: the incarnation of its log, how often it had started, and how far it said
that its log was synced. Who comes back with less is refused, for good.

What a peer is is durable here before the connection with it is used; how far its log is, within
`FLUSH_S`, and when its connection is lost.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import structlog
from crc32c import crc32c

from peering.rpc.handshake import Refusal
from store_nodes.wal.disk import Disk, OsDisk, read_whole, write_atomically
from store_nodes.wire import REFUSED, Remote

log = structlog.get_logger()

PEERS_NAME = "peers.json"
FLUSH_S = 5.0
REMEDY = (
    "Its promises are lost, so it must never vote under this id again. Give it an empty directory "
    "and a new id: packetboat store replace-node {node} NEW HOST:PORT"
)


class Known(msgspec.Struct):
    """One peer as it was last seen. Uids are hex; `tail` as in wire.Hello, the highest told."""

    incarnation: str
    boot: int = 0
    run: str = ""
    tail: int = 0


class _File(msgspec.Struct):
    """`crc32c` is of the JSON of `peers`: a flipped bit must not shut out a healthy peer."""

    peers: dict[int, Known]
    crc32c: int


_KNOWN = dict[int, Known]


class KnownPeers:
    """The memory of one node. Any OSError is fatal to it."""

    def __init__(self, directory: Path, *, disk: Disk | None = None) -> None:
        """A file that does not verify counts as none: what it knew is then learned again."""
        self._disk = disk or OsDisk()
        self._path = directory / PEERS_NAME
        self._known = self._load()
        self._changed = False
        self._writing = threading.Lock()

    def __contains__(self, node: int) -> bool:
        return node in self._known

    def starts(self) -> dict[int, int]:
        """Of each peer, how often it had started when it was last seen; 0 where it did not say."""
        return {node: known.boot for node, known in sorted(self._known.items())}

    def meet(self, remote: Remote) -> Refusal | None:
        """A peer has proved who it is: remember it, durably, or say why it cannot come in."""
        known = self._known.get(remote.node)
        if known is None:
            self._remember(remote, 0)
            return None
        reason = _less_than_known(remote, known)
        if reason is not None:
            return Refusal(
                f"node {remote.node} is refused: {reason}. {REMEDY.format(node=remote.node)}",
                REFUSED,
            )
        if (remote.boot, remote.run.hex()) != (known.boot, known.run):
            self._remember(remote, known.tail)
        return None

    def told(self, node: int, tail: int) -> None:
        """A connected peer says how far its log is synced."""
        known = self._known.get(node)
        if known is not None and tail > known.tail:
            known.tail = tail
            self._changed = True

    def forget(self, node: int) -> None:
        """It was removed from every group; its id is never used again anyway."""
        if self._known.pop(node, None) is not None:
            self._changed = True

    def flush(self) -> None:
        """Make what was told durable. Blocks."""
        with self._writing:
            if not self._changed:
                return
            self._changed = False
            # Encoded in one call, which the loop's thread cannot interrupt.
            raw = msgspec.json.encode(self._known)
            file = msgspec.json.encode(_File(msgspec.json.decode(raw, type=_KNOWN), crc32c(raw)))
            write_atomically(self._disk, self._path, file)

    def _load(self) -> dict[int, Known]:
        raw = read_whole(self._disk, self._path)
        if raw is None:
            return {}
        try:
            file = msgspec.json.decode(raw, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("the memory of peers is damaged", path=str(self._path), reason=str(error))
            return {}
        if crc32c(msgspec.json.encode(file.peers)) != file.crc32c:
            log.error("the memory of peers is damaged", path=str(self._path), reason="CRC32C")
            return {}
        return file.peers

    def _remember(self, remote: Remote, tail: int) -> None:
        self._known[remote.node] = Known(
            remote.incarnation.hex(), remote.boot, remote.run.hex(), max(tail, remote.tail)
        )
        self._changed = True
        self.flush()


def _less_than_known(remote: Remote, known: Known) -> str | None:
    """What is missing of what the peer once was, in words."""
    if remote.incarnation.hex() != known.incarnation:
        return "its data directory is not the one it had (wiped, or another node's)"
    if not remote.boot:
        return None  # It speaks version 1, which says no more.
    if remote.boot < known.boot:
        return (
            f"its data directory is an older copy (start {remote.boot}, and start {known.boot} "
            "was seen)"
        )
    if remote.boot == known.boot and known.boot and remote.run.hex() != known.run:
        return f"another copy of its data directory has run (start {remote.boot} twice)"
    if remote.boot > known.boot and remote.tail < known.tail:
        return (
            f"its data directory is an older copy (its log ends at {_place(remote.tail)}, and was "
            f"synced up to {_place(known.tail)})"
        )
    return None


def _place(tail: int) -> str:
    return f"segment {tail >> 32}, byte {tail & 0xFFFFFFFF}"
