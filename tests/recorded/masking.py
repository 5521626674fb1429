"""Replaces what differs from run to run by placeholders; the same value gets the same one."""

from __future__ import annotations

import re
from typing import Any

TIME = re.compile(r"\b20[1-8]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
"""A time of the run or soon after. Scenarios write times of other centuries, which stay."""

RUN = re.compile(r"(.)\1{63,}")
"""One character so often that a reader would have to count."""

KINDS = {
    "access_token": "token",
    "ack_id": "ack",
    "client_id": "client",
    "client_secret": "secret",
    "id": "id",
    "job_uid": "uid",
    "kid": "key-id",
    "lease": "lease",
    "lease_id": "lease",
    "lock_id": "lock",
    "message_id": "message",
    "next_page_token": "page",
    "publish_id": "publish",
    "prefix": "prefix",
    "secret": "secret",
    "subscription_uid": "uid",
    "ticket": "ticket",
    "token": "token",
    "token_audience": "audience",
    "uid": "uid",
}
"""Fields whose values are made up by the server, by name, and the word of their placeholder."""

ELAPSED = frozenset(
    {"age_seconds", "expires_in_seconds", "oldest_unacked_seconds", "ack_latency_seconds"}
)
"""Fields that say how long something has lasted or will last."""

PLACED = {"group": "<group>", "groups": "<groups>", "stored_bytes": "<bytes>"}
"""Fields that say where the store keeps something and how much it takes there."""

SHORTEST = 6
"""Values that are shorter than this, in characters, are not looked for inside other texts."""


class Mask:
    """The values of one area that have been seen, and what stands for them."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._etags: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None

    def name(self, value: str, placeholder: str) -> None:
        """Let a placeholder stand for a value wherever it occurs."""
        self._known[value] = placeholder
        self._pattern = None

    def learn(self, value: str, kind: str) -> None:
        """Give a value the next placeholder of its kind, unless it has one."""
        if len(value) < SHORTEST or value in self._known:
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self.name(value, f"<{kind}-{self._counts[kind]}>")

    def etag(self, value: str) -> str:
        """Return the placeholder of a version that an answer named. All tenants share numbers."""
        if value not in self._etags:
            self._etags[value] = f"<etag-{len(self._etags) + 1}>"
        return self._etags[value]

    def known_etag(self, value: str) -> str:
        """Return a version as a request names it: one that no answer named stays as it is."""
        return self._etags.get(value, value)

    def look(self, value: Any, field: str = "") -> None:
        """Learn all that is made up in an answer's body."""
        if isinstance(value, dict):
            for key, member in value.items():
                self.look(member, key)
        elif isinstance(value, list):
            for member in value:
                self.look(member, field.removesuffix("s"))
        elif isinstance(value, str) and field in KINDS:
            self.learn(value, KINDS[field])

    def text(self, text: str) -> str:
        """Return a text with placeholders for what is known and for times."""
        if self._known:
            if self._pattern is None:
                longest_first = sorted(self._known, key=len, reverse=True)
                self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            text = self._pattern.sub(lambda found: self._known[found.group()], text)
        text = RUN.sub(lambda found: f"<{len(found[0])} {found[1]}>", text)
        return TIME.sub("<time>", text)

    def body(self, value: Any, field: str = "") -> Any:
        """Return a decoded body with placeholders."""
        if field in PLACED and value is not None:
            return PLACED[field]
        if isinstance(value, dict):
            return {self.text(key): self.body(member, key) for key, member in value.items()}
        if isinstance(value, list):
            return [self.body(member, field) for member in value]
        if isinstance(value, str):
            return self.text(value)
        if field in ELAPSED and isinstance(value, int | float):
            return "<seconds>"
        return value
