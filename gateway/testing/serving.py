"""The program behind the pytest fixture: an installation for tests, told what to do by lines.

A line of standard input is an order, a line of standard output its answer, both JSON:

| order | answer |
|---|---|
| none: it is started | `{"port": …, "client_id": …, "client_secret": …}` |
| `{"advance_s": 60}` | `{"ahead_s": …}`: by how much its time is ahead of the machine's |

An answer `{"error": …}` says what went wrong. At the end of its input everything ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TextIO

from gateway.testing.clock_steps import advance
from gateway.testing.installation import Installation, NotStarted


def main(nodes: int) -> None:
    orders, answers = sys.stdin, sys.stdout
    # The output of a library is no answer.
    sys.stdout = sys.stderr
    installation = Installation(nodes)
    try:
        serve(installation, orders, answers)
    except BrokenPipeError:
        # Nobody reads any more. The bytes that Python would flush at its end have nowhere to go
        # either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())
    finally:
        installation.stop()


def serve(installation: Installation, orders: Iterable[str], answers: TextIO) -> None:
    """Returns at the end of the orders, or after an error."""

    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        installation.start()
        operator = installation.operator
        say(
            port=installation.port,
            client_id=operator.client_id,
            client_secret=operator.client_secret,
        )
        for line in orders:
            advance(installation, json.loads(line)["advance_s"])
            say(ahead_s=installation.shared.taken_us / 1e6)
    except NotStarted as error:
        say(error=str(error))
