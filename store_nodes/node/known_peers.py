"""The memory of this node about its peers, and its refusals: the file `peers.json`.

A node that lost its disk, or came back with an old copy of it, has forgotten promises that others
rely on. It must not take part under its old id, and it cannot know that by itself; its peers can.
Each peer remembers of each other one: the incarnation of its log, the number of its starts, and the
synced end of its log that it reported. A peer that comes back with less is refused, for good.

A peer's identity is durable here before the connection with it is used. The end of its log is
durable within `FLUSH_S`, and when its connection is lost.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import structlog
from crc32c import crc32c

from peering.rpc.handshake import PeerRefusal
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
    """One peer as it was last seen; uids are in hexadecimal.

    `tail` is the highest one it told, in the form of wire.Hello.
    """

    incarnation: str
    boot: int = 0
    run: str = ""
    tail: int = 0


class _File(msgspec.Struct):
    """The content of the file; `crc32c` is that of the JSON of `peers`.

    Without it, a flipped bit could shut out a healthy peer.
    """

    peers: dict[int, Known]
    crc32c: int


_KNOWN = dict[int, Known]


class KnownPeers:
    """The memory of one node about its peers. Any OSError is fatal to the node."""

    def __init__(self, directory: Path, *, disk: Disk | None = None) -> None:
        """Read the file; a damaged one counts as none, and its content is learned again."""
        self._disk = disk or OsDisk()
        self._path = directory / PEERS_NAME
        self._known = self._load()
        self._changed = False
        self._writing = threading.Lock()

    def __contains__(self, node: int) -> bool:
        return node in self._known

    def starts(self) -> dict[int, int]:
        """Return the number of starts of each peer as last seen; 0 for a peer that did not report
        it.
        """
        return {node: known.boot for node, known in sorted(self._known.items())}

    def meet(self, remote: Remote) -> PeerRefusal | None:
        """Remember a peer that has proved its identity, durably, or return why it is refused."""
        known = self._known.get(remote.node)
        if known is None:
            self._remember(remote, 0)
            return None
        reason = _less_than_known(remote, known)
        if reason is not None:
            return PeerRefusal(
                f"node {remote.node} is refused: {reason}. {REMEDY.format(node=remote.node)}",
                REFUSED,
            )
        if (remote.boot, remote.run.hex()) != (known.boot, known.run):
            self._remember(remote, known.tail)
        return None

    def told(self, node: int, tail: int) -> None:
        """Note the end of a connected peer's synced log, as it reported."""
        known = self._known.get(node)
        if known is not None and tail > known.tail:
            known.tail = tail
            self._changed = True

    def forget(self, node: int) -> None:
        """Forget a node that was removed from every group; its id is never used again."""
        if self._known.pop(node, None) is not None:
            self._changed = True

    def flush(self) -> None:
        """Make everything noted durable. Blocks."""
        with self._writing:
            if not self._changed:
                return
            self._changed = False
            # This is one call, which the loop's thread cannot interrupt.
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
    """Return in words what the peer lacks compared with its last known state, or None."""
    if remote.incarnation.hex() != known.incarnation:
        return "its data directory is not the one it had (wiped, or another node's)"
    if not remote.boot:
        return None  # the peer speaks version 1, which says no more
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
