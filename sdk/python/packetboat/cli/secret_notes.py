"""What is said where the server tells a secret, which it does once."""

from __future__ import annotations

from packetboat.cli.output import Output

SHOWN_ONCE = "The secret is shown this once: keep it where it is needed now."


def note_secret(output: Output, told: object) -> None:
    """`told`: the secret of an answer, if it has one."""
    if told:
        output.note(SHOWN_ONCE)
