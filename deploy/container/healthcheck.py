"""The health check of a container, for `HEALTHCHECK`; Kubernetes makes its own requests.

The settings show which process it is: a store node has an id, a runner of exports has lakes. Exit
status: 0 if it answers, 1 if it does not.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 4.0


def address() -> str:
    """Return the address of a page that costs next to nothing."""
    if "PACKETBOAT_STORE_NODE_ID" in os.environ:
        return f"http://127.0.0.1:{os.environ['PACKETBOAT_STORE_METRICS_PORT']}/healthz"
    if "PACKETBOAT_LAKES" in os.environ:
        return f"http://127.0.0.1:{os.environ['PACKETBOAT_RUNNER_METRICS_PORT']}/metrics"
    return f"http://127.0.0.1:{os.environ['PACKETBOAT_PORT']}/healthz"


if __name__ == "__main__":
    try:
        urllib.request.urlopen(address(), timeout=TIMEOUT_S).close()
    except (urllib.error.URLError, TimeoutError) as error:
        sys.stderr.write(f"{address()}: {error}\n")
        sys.exit(1)
