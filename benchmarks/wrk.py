"""One message per plain POST, by wrk."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.body import text_body
from harness.processes import NotReady

SCRIPT = """
wrk.method = "POST"
wrk.body = "{body}"
wrk.headers["Content-Type"] = "text/plain"
wrk.headers["Authorization"] = "Bearer {token}"
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n{{"n": %d, "elapsed_s": %f, "p50_ms": %f, "p99_ms": %f, "errors": '
      .. '{{"status": %d, "connect": %d, "read": %d, "write": %d, "timeout": %d}}}}\\n',
    summary.requests - errors.status, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end
"""


def post(
    url: str, token: str, *, connections: int, seconds: float, directory: Path
) -> dict[str, Any]:
    """Each connection sends its next message when the last is answered. Raises NotReady."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise NotReady("single POST: wrk is not installed (apt-get install wrk)")
    script = directory / "post.lua"
    script.write_text(SCRIPT.format(body=text_body(), token=token))
    run = subprocess.run(
        [wrk, "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "-s", str(script), url],
        capture_output=True,
        text=True,
        timeout=seconds + 20,
    )
    if run.returncode != 0:
        raise NotReady(f"wrk: {run.stderr.strip()[-300:]}")
    result: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return result | {"failed": sum(result["errors"].values())}
