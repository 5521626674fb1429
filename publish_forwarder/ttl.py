"""The time within which a message is worth delivering: `Packetboat-TTL: 90`, or an item's
`ttl_seconds: 90`.

It counts from the time at which the message is due, else from its publication. A message whose time
is over is settled as expired instead of delivered.
"""

from __future__ import annotations

from edge.problem import refuse
from openapi.publish import MAX_TTL_S
from publish_forwarder.delays import seconds_of


def ttl_ms(name: str, seconds: float) -> int:
    """Return a TTL in ms; raises a 422 Problem that names the field `name`."""
    if not 0 < seconds <= MAX_TTL_S:
        refuse(name, f"more than 0 and at most {MAX_TTL_S} seconds (365 days).")
    return max(1, round(seconds * 1000))


def ttl_ms_of_text(name: str, text: str) -> int:
    return ttl_ms(name, seconds_of(name, text))
