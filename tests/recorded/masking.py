"""Replaces what differs from run to run by placeholders; the same value gets the same one."""

from __future__ import annotations

import re
from typing import Any

TIME = re.compile(r"\b20[1-8]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
"""A time of the run or soon after. Scenarios write times of other centuries, which stay."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SECRET = re.compile(r"(pb[a-z]+|wh[a-z]+)_[A-Za-z0-9_+/=-]{16,}")
RUN = re.compile(r"(.)\1{63,}")
"""One character so often that a reader would have to count."""

KINDS = {
    "access_token": "token",
    "ack_id": "ack",
    "client_id": "client",
    "client_secret": "secret",
    "id": "id",
    "job_uid": "uid",
    "jti": "id",
    "key_id": "key",
    "kid": "key-id",
    "lease": "lease",
    "lease_id": "lease",
    "letter_id": "message",
    "lock_id": "lock",
    "message_id": "message",
    "next_page_token": "page",
    "publish_id": "publish",
    "prefix": "prefix",
    "redrive_id": "redrive",
    "request_id": "request",
    "secret": "secret",
    "subscription_uid": "uid",
    "ticket": "ticket",
    "token_audience": "audience",
    "topic_uid": "uid",
    "uid": "uid",
}
"""Fields whose values are made up by the server, by name, and the word of their placeholder."""

MOMENTS = {
    "age_seconds": "<seconds>",
    "exp": "<time>",
    "expires_in_seconds": "<seconds>",
    "iat": "<time>",
    "latency_ms": "<milliseconds>",
}
"""Fields with numbers that say when something was, how long it has lasted or will last."""

PLACED = {"group": "<group>", "groups": "<groups>", "stored_bytes": "<bytes>"}
"""Fields that say where the store keeps something and how much it takes there."""

NOTED_LATE = {"last_used_at": "<time or null>", "lag_messages": "<count>"}
"""Fields that the server fills in some seconds after what they tell of."""

SIGNED = {"token": "<token>"}
"""Fields whose value is the same again when it is signed in the same second."""

SHORTEST = 6
"""Values that are shorter than this, in characters, are not looked for inside other texts."""


class Mask:
    """The values of one area that have been seen, and what stands for them."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._etags: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def name(self, value: str, placeholder: str) -> None:
        """Let a placeholder stand for a value wherever it occurs."""
        self._known[value] = placeholder

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

    def look(self, value: Any, sent: str = "", field: str = "") -> None:
        """Learn all that the server made up in an answer's body; `sent` is what was asked."""
        if isinstance(value, dict):
            for key, member in value.items():
                self.look(member, sent, key)
        elif isinstance(value, list):
            for member in value:
                self.look(member, sent, field.removesuffix("s"))
        elif isinstance(value, str) and value in sent:
            return
        elif isinstance(value, str) and UUID.fullmatch(value):
            self.learn(value, "uuid")
        elif isinstance(value, str) and SECRET.fullmatch(value):
            self.learn(value, "secret")
        elif isinstance(value, str) and field in KINDS:
            self.learn(value, KINDS[field])

    def text(self, text: str) -> str:
        """Return a text with placeholders for what is known and for times."""
        # A pattern of all that is known would be compiled anew for each value that is learned.
        there = [value for value in self._known if value in text]
        if there:
            longest_first = sorted(there, key=len, reverse=True)
            pattern = "|".join(map(re.escape, longest_first))
            text = re.sub(pattern, lambda found: self._known[found.group()], text)
        text = RUN.sub(lambda found: f"<{len(found[0])} {found[1]}>", text)
        return TIME.sub("<time>", text)

    def request(self, value: Any) -> Any:
        """Return the body of a request with placeholders for what answers have named."""
        if isinstance(value, dict):
            return {self.text(key): self.request(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.request(member) for member in value]
        return self.text(value) if isinstance(value, str) else value

    def answer(self, value: Any, field: str = "") -> Any:
        """Return the body of an answer with placeholders."""
        if field in NOTED_LATE:
            return NOTED_LATE[field]
        if field in PLACED and value is not None:
            return PLACED[field]
        if field in SIGNED and value is not None:
            return SIGNED[field]
        if isinstance(value, dict):
            return {self.text(key): self.answer(member, key) for key, member in value.items()}
        if isinstance(value, list):
            return [self.answer(member, field) for member in value]
        if isinstance(value, str):
            return self.text(value)
        if field in MOMENTS and isinstance(value, int | float):
            return MOMENTS[field]
        return value
