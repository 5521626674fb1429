"""Messages to publish by the million: the same on every machine, or of what every machine has.

`n` of a body counts through all of a set, so among messages of one key it only grows: the order in
which they were published can be told from bodies alone.
"""

from __future__ import annotations

import random
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count as counted
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from packetboat import Client, PendingReceipt, Receipt

SEED = 8
COLUMNS = {
    "events": ("n", "event", "at", "user", "ip", "agent", "items", "total", "coupon"),
    "sources": ("n", "file", "line", "indent", "text", "keywords"),
}
"""Fields of bodies, by set."""
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "shop-app/4.2", "curl/8.5")
_EVENTS = ("view", "view", "view", "search", "add_to_cart", "remove", "checkout", "refund")
_COUNTRIES = ("DE", "FR", "JP", "BR", "US", "IN", "NG")
_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
_KEYWORDS = frozenset({"def", "class", "return", "import", "raise", "yield", "async", "with"})
_ITEMS, _USERS = 5_000, 20_000
_OUTSTANDING = 50_000


class Record(NamedTuple):
    """A message: the body is JSON."""

    key: str
    attributes: dict[str, str]
    body: dict[str, Any]


def events(seed: int = SEED) -> Iterator[Record]:
    """Yield events of a shop's site without end, of 250 bytes in the mean.

    They are nested, with lists, with fields that are often missing, and one that begins to come
    later.
    """
    rng = random.Random(seed)
    at = _BEGINS
    for number in counted():
        at += timedelta(milliseconds=rng.expovariate(0.02))
        user = int(rng.paretovariate(0.6)) % _USERS
        body: dict[str, Any] = {
            "n": number,
            "event": rng.choice(_EVENTS),
            "at": at.isoformat(timespec="milliseconds"),
            "user": {"id": user, "country": _COUNTRIES[user % 7], "member": user % 3 == 0},
            "ip": f"10.{user >> 8 & 255}.{user & 255}.{rng.randrange(256)}",
            "agent": _AGENTS[user % 4],
        }
        if body["event"] in ("add_to_cart", "checkout", "refund"):
            items = [
                {"sku": f"sku-{rng.randrange(_ITEMS):05}", "pieces": rng.randint(1, 4)}
                for _ in range(rng.randint(1, 3))
            ]
            body["items"] = items
            body["total"] = round(sum(3.75 * each["pieces"] for each in items), 2)
            if number > 1_000 and user % 5 == 0:
                body["coupon"] = f"SPRING-{rng.randrange(100)}"
        yield Record(f"user-{user}", {"event": body["event"], "site": "shop"}, body)


def sources() -> Iterator[Record]:
    """Yield each line that is not blank of Python's own library, file by file, over and over."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts]
    numbers = counted()
    while True:
        for path in files:
            name = path.relative_to(root).as_posix()
            attributes = {"package": name.partition("/")[0].removesuffix(".py")}
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            for at, line in enumerate(lines, 1):
                text = line.strip()
                if not text:
                    continue
                body: dict[str, Any] = {
                    "n": next(numbers),
                    "file": name,
                    "line": at,
                    "indent": (len(line) - len(line.lstrip())) / 4,
                    "text": text,
                }
                if keywords := sorted(_KEYWORDS.intersection(text.split())):
                    body["keywords"] = keywords
                yield Record(name, attributes, body)


SETS: dict[str, Callable[[], Iterator[Record]]] = {"events": events, "sources": sources}


class Published(NamedTuple):
    """A message that a publisher sent, with its receipt."""

    record: Record
    receipt: Receipt


def publish(
    client: Client, topic: str, records: Iterator[Record], count: int
) -> Iterator[Published]:
    """Publish `count` records, pipelined, in their order; raises the errors of a publish."""
    out: deque[tuple[Record, PendingReceipt]] = deque()
    for record in islice(records, count):
        pending = client.publish(topic, record.body, key=record.key, attributes=record.attributes)
        out.append((record, pending))
        if len(out) >= _OUTSTANDING:
            sent, oldest = out.popleft()
            yield Published(sent, oldest.result())
    while out:
        sent, oldest = out.popleft()
        yield Published(sent, oldest.result())
