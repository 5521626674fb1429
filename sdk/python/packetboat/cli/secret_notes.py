"""The note beside a secret, which the server shows only once."""

from __future__ import annotations

from packetboat.cli.output import Output

SHOWN_ONCE = "The secret is shown this once: keep it where it is needed now."


def note_secret(output: Output, told: object) -> None:
    """Print the note if the answer has a secret, which is `told`."""
    if told:
        output.note(SHOWN_ONCE)
