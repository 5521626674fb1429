"""Makes and reads ack ids, the names of deliveries: opaque and authenticated.

The id of one delivery has 72 characters:

    base64url of: subscription uid 16 B · generation u32 · partition u32 · lane u8 · era u32 · n u32
                  | attempt u16 · offset u64 · MAC 11 B

The MAC is keyed BLAKE2b over all before it. The first 33 bytes are the same for everything a
partition's owner makes under one epoch and make exactly 44 characters, so their encoding and
the hash state after them are made once: what is left per message is 10 bytes. With their MAC they
are 21 bytes, which make exactly 28 characters, so the ids of many messages are encoded in one call.

The messages of a page have one *token*, with one MAC for all, and are numbered from 0:

    token       = base64url of: the same 33 bytes
                  | (offset u64 · messages u16 · attempt u16) … | MAC 12 B
    page ack id = token "." range *("," range)
    range       = number ["-" last number]

The key outlives the process, so an ack id does too; while it is being changed, ids that an older
one made hold as well.
"""

from __future__ import annotations

import hashlib
import re
import struct
from base64 import urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from hmac import compare_digest
from typing import NamedTuple

from metadata.types import Epoch
from peering.shared_secret import SharedSecret

ID_CHARS = 72
HEAD_CHARS = 44
MAX_ATTEMPT = 0xFFFF
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = hashlib.blake2b.MAX_KEY_SIZE

_HEAD = struct.Struct(">16sIIBII")
_TAIL = struct.Struct(">HQ")
_MAC_BYTES = 11
_ITEM = struct.Struct(f"{_TAIL.format}{_MAC_BYTES}x")
_ITEM_CHARS = ID_CHARS - HEAD_CHARS
_RUN = struct.Struct(">QHH")
_PAGE_MAC_BYTES = 12
MAX_RUNS = 32
"""The most runs of a token, which keeps it short; a page has as many tokens as it needs."""
_SELECTION = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class BadAckId(ValueError):
    """The text is not an ack id of this platform."""


class Head(NamedTuple):
    """The part that all ack ids of one (subscription, partition) under one epoch share."""

    subscription_uid: bytes
    generation: int
    partition: int
    lane: int
    epoch: Epoch


class Run(NamedTuple):
    """Deliveries of messages that follow one another, all of the same attempt."""

    first: int
    messages: int
    attempt: int


class PageIds(NamedTuple):
    """The deliveries that a page ack id names, as columns: their numbers in the page, their
    offsets, which do not repeat, and their attempts."""

    numbers: Sequence[int]
    offsets: Sequence[int]
    attempts: Sequence[int]


class Minter:
    """Makes and reads the ack ids of one head."""

    __slots__ = ("_hash", "_others", "_page_hashes", "_prefix", "head")

    def __init__(self, head: Head, key: SharedSecret) -> None:
        assert len(key.first) >= MIN_KEY_BYTES
        raw = _HEAD.pack(
            head.subscription_uid,
            head.generation,
            head.partition,
            head.lane,
            head.epoch.era,
            head.epoch.n,
        )
        self.head = head
        self._prefix = urlsafe_b64encode(raw)
        self._hash = _keyed(raw, key.first)
        self._others = tuple(_keyed(raw, other) for other in key.others)
        self._page_hashes = tuple(
            _keyed(raw, each, _PAGE_MAC_BYTES) for each in (key.first, *key.others)
        )

    @property
    def prefix(self) -> str:
        """The first characters, which all ids of this head share."""
        return self._prefix.decode()

    def mint(self, offset: int, attempt: int) -> bytes:
        """Return the ack id of one delivery."""
        return self.mint_all((offset,), (attempt,))[0]

    def mint_all(self, offsets: Iterable[int], attempts: Iterable[int]) -> list[bytes]:
        """Return the ack ids of deliveries; `attempts` has at least as many as `offsets`."""
        pack, limit = _TAIL.pack, MAX_ATTEMPT
        tails = [
            pack(attempt if attempt < limit else limit, offset)
            for offset, attempt in zip(offsets, attempts, strict=False)
        ]
        text = b2a_base64(_with_macs(self._hash, tails), newline=False).translate(_TO_URL_SAFE)
        prefix, size = self._prefix, _ITEM_CHARS
        return [prefix + text[at : at + size] for at in range(0, len(text), size)]

    def open(self, text: str) -> tuple[int, int]:
        """Return the attempt and the offset of an id that starts with `prefix`; raise BadAckId."""
        return self.open_all((text,))[0]

    def open_all(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """Return the attempt and the offset of each id; raise BadAckId if one of them is bad.

        The ids start with `prefix`.
        """
        if {len(text) for text in texts} != {ID_CHARS}:
            raise BadAckId(f"an ack id has {ID_CHARS} characters")
        try:
            raw = _decode("".join([text[HEAD_CHARS:] for text in texts]))
        except ValueError as error:
            raise BadAckId("not base64url") from error
        if not any(_are_macs(begun, raw) for begun in (self._hash, *self._others)):
            raise BadAckId("not an ack id of this platform")
        return list(_ITEM.iter_unpack(raw))

    def token(self, runs: Sequence[Run]) -> bytes:
        """Return the token of a page of at most `MAX_RUNS` runs."""
        assert 0 < len(runs) <= MAX_RUNS, f"a token of {len(runs)} runs"
        raw = b"".join([_RUN.pack(*run) for run in runs])
        return self._prefix + urlsafe_b64encode(raw + _mac(self._page_hashes[0], raw))

    def open_page(self, text: str) -> PageIds:
        """Return what a page ack id names that starts with `prefix`; raise BadAckId."""
        token, _, selection = text.partition(".")
        try:
            raw = _decode(token[HEAD_CHARS:])
        except ValueError as error:
            raise BadAckId("not base64url") from error
        runs, mac = raw[:-_PAGE_MAC_BYTES], raw[-_PAGE_MAC_BYTES:]
        macs = [_mac(begun, runs) for begun in self._page_hashes]
        if not any([compare_digest(mac, one) for one in macs]) or len(runs) % _RUN.size:
            raise BadAckId("not an ack id of this platform")
        return _selected([Run(*run) for run in _RUN.iter_unpack(runs)], _ranges(selection))


def is_page_id(text: str) -> bool:
    """Return whether a text is of the form of page ack ids, if it is an ack id at all."""
    return "." in text


def parse_head(text: str) -> Head:
    """Return the unverified claims of an id: open it with a Minter of that head."""
    if len(text) < HEAD_CHARS:
        raise BadAckId(f"an ack id has {ID_CHARS} characters")
    try:
        uid, generation, partition, lane, era, n = _HEAD.unpack(_decode(text[:HEAD_CHARS]))
    except ValueError as error:
        raise BadAckId("not base64url") from error
    return Head(uid, generation, partition, lane, Epoch(era, n))


def _keyed(raw: bytes, key: bytes, mac_bytes: int = _MAC_BYTES) -> hashlib.blake2b:
    return hashlib.blake2b(raw, key=key, digest_size=mac_bytes)


def _mac(begun: hashlib.blake2b, raw: bytes) -> bytes:
    state = begun.copy()
    state.update(raw)
    return state.digest()


def _ranges(selection: str) -> list[range]:
    """Return the numbers that a selection names, ascending; raise BadAckId."""
    if not _SELECTION.fullmatch(selection):
        raise BadAckId("a page ack id ends in the numbers of its deliveries")
    ranges: list[range] = []
    end = 0
    for part in selection.split(","):
        low, _, last = part.partition("-")
        begin, stop = int(low), int(last or low) + 1
        if not end <= begin < stop:
            raise BadAckId("the numbers of a page ack id ascend")
        ranges.append(range(begin, stop))
        end = stop
    return ranges


def _selected(runs: Sequence[Run], ranges: Sequence[range]) -> PageIds:
    """Return the deliveries of a page that have these numbers; raise BadAckId beyond the page.

    It costs what is named, not what the page has: a request may name each message by an id of its
    own.
    """
    count = sum(run.messages for run in runs)
    if ranges[-1].stop > count:
        raise BadAckId(f"the page has {count} messages")
    numbers: list[int] = []
    offsets: list[int] = []
    attempts: list[int] = []
    place, at = 0, 0
    """The run that is looked at, and the number of its first delivery."""
    for wanted in ranges:
        numbers += wanted
        begin = wanted.start
        while begin < wanted.stop:
            first, messages, attempt = runs[place]
            if begin >= at + messages:
                place, at = place + 1, at + messages
                continue
            end = min(wanted.stop, at + messages)
            offsets += range(first + begin - at, first + end - at)
            attempts += [attempt] * (end - begin)
            begin = end
    return PageIds(numbers, offsets, attempts)


def _with_macs(begun: hashlib.blake2b, tails: Sequence[bytes]) -> bytes:
    """Return the tails one after the other, each with its MAC."""
    copy = begun.copy
    parts: list[bytes] = []
    for tail in tails:
        state = copy()
        state.update(tail)
        parts += (tail, state.digest())
    return b"".join(parts)


def _are_macs(begun: hashlib.blake2b, raw: bytes) -> bool:
    """Return whether all ids have their MACs, in constant time."""
    tails = [raw[at : at + _TAIL.size] for at in range(0, len(raw), _ITEM.size)]
    return compare_digest(raw, _with_macs(begun, tails))


def _decode(text: str) -> bytes:
    """Decode text of a length that needs no padding, so exactly one text decodes to given bytes."""
    if "+" in text or "/" in text:
        raise ValueError("base64, not base64url")
    try:
        raw = a2b_base64(text.encode("ascii").translate(_TO_STANDARD), strict_mode=True)
    except Base64Error as error:
        raise ValueError(str(error)) from error
    if len(raw) * 4 != len(text) * 3:
        raise ValueError("padding")
    return raw
