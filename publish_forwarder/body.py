"""Reads request bodies within the budget: a body that arrives counts like an accepted one.

A refusal here leaves the rest of the body unread; the dispatcher drains it before it answers, and
ends bodies that stall.
"""

from __future__ import annotations

from typing import cast

from edge.asgi import ClientGone, Receive
from edge.problem import Problem
from publish_forwarder.budget import Share

UNCOUNTED_BYTES = 64 * 1024
"""Smaller bodies are not reserved while they arrive: they come with their connection's buffers."""
STEP_BYTES = 256 * 1024


async def read_body(
    receive: Receive, share: Share, limit_bytes: int, content_length: int | None
) -> bytes:
    """Return the body, with its memory reserved while it arrives.

    Raises a 413, 429 or 503 Problem, or ClientGone. When it returns, nothing is reserved any more:
    reserve for what the body becomes before the next await.
    """
    held_bytes = 0
    chunks: list[bytes] = []
    total_bytes = 0
    try:
        if content_length is not None and content_length > UNCOUNTED_BYTES:
            if content_length > limit_bytes:
                raise too_large(limit_bytes)
            share.reserve(content_length, 0)
            held_bytes = content_length
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk = cast(bytes, message.get("body", b""))
            if chunk:
                chunks.append(chunk)
                total_bytes += len(chunk)
                if total_bytes > limit_bytes:
                    raise too_large(limit_bytes)
                if total_bytes > held_bytes and total_bytes > UNCOUNTED_BYTES:
                    step_bytes = max(STEP_BYTES, total_bytes - held_bytes)
                    share.reserve(step_bytes, 0)
                    held_bytes += step_bytes
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    finally:
        if held_bytes:
            share.release(held_bytes, 0)


def too_large(limit_bytes: int) -> Problem:
    return Problem.of(
        "body-too-large",
        f"The body is over the limit of {limit_bytes} bytes.",
        extra={"limit_bytes": limit_bytes},
    )
