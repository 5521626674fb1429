"""Waiting for a run of an export."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from packetboat.cli.api import Api, path
from packetboat.cli.invocation import Invocation
from packetboat.cli.progress import Progress, wait
from packetboat.extras import EXPORTS

FINISHED = frozenset({"succeeded", "failed", "cancelled"})
LOOK_S = 1.0
OUTAGE_S = 60.0
"""Seconds of an outage during which the wait continues."""
NOTE_S = 15.0
"""Seconds after which a note says that a run still waits for a runner."""
_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})


def say_where_spark_is_missing(here: Invocation) -> None:
    """A server on this machine runs exports by the Spark of this Python; without it runs wait."""
    hosts = {urlsplit(url).hostname for url in here.options.urls}
    if hosts <= _THIS_MACHINE and find_spec("pyspark") is None:
        here.output.warning(
            f"Spark is not installed here, so the run waits for a runner: {EXPORTS}"
        )


def followed(here: Invocation, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for a run; return it once it is finished, however it ended."""
    api = Api(here.api.sender, max(here.timeout_s or 0.0, OUTAGE_S))
    where = path("exports", run["export"], "runs", str(run["number"]))
    waits_from = time.monotonic()
    said = False
    with Progress(here.output, "rows", None) as progress:
        while run["state"] not in FINISHED:
            now = run["progress"] or {"stage": run["state"], "rows": 0, "of_messages": 0}
            name = run["state"] if run["state"] == "queued" else now["stage"]
            progress.at(now["rows"], name, now["of_messages"] or None)
            if run["state"] != "queued":
                said = True
            elif not said and time.monotonic() - waits_from > NOTE_S:
                said = True
                here.output.note(
                    f"Run {run['number']} waits for a runner: `packetboat export-runner` is one."
                )
            wait(LOOK_S)
            run = api.get(where)
    return run
