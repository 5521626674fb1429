"""A process's share of a limit, pure: its part of what all processes ask for.

Each knows what all asked for a moment ago, not who, so what the shares add up to follows with a
delay of a second or two. While less is asked for than there is, a share is more than what its
process asks for; when more is, all shares are used up and add up to the limit.

Who has asked for nothing yet has an even part: it starts at once, and the others give way with the
next look. And nobody has less than a fraction of an even part.
"""

from __future__ import annotations

FLOOR = 0.05
"""Of an even part."""
NEGLIGIBLE = 0.01
"""Who asks for less than this part of a limit does not tell."""


def share_of(limit: float, own: float, total: float, processes: int) -> float:
    """`own`: what this process told, which is in `total`; 0: nothing. `processes` at least 1."""
    even = limit / processes
    if own <= 0:
        return even
    return max(FLOOR * even, limit * min(1.0, own / total))
