"""A driver that does what its order's export is called, by the protocol and without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import NoReturn

import msgspec
from packetboat.models.export_runs import LaneKey, LanePosition
from packetboat.models.exports import ExportResult, ExportTable

from spark_exports.order import (
    Cancel,
    Done,
    Failed,
    FromDriver,
    FromRunner,
    Opened,
    Order,
    Progress,
    Ranges,
)

LANE = LaneKey("t", "u", 0, 0)


def say(message: FromDriver) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.flush()


def hear() -> FromRunner:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(3)
    return msgspec.json.decode(line, type=FromRunner)


def planned() -> Ranges:
    say(Opened([LanePosition(LANE, 5)]))
    ranges = hear()
    assert isinstance(ranges, Ranges), ranges
    return ranges


def done(rows: int) -> NoReturn:
    table = ExportTable("acme.t", "/lake/acme/t", None, 1)
    say(Done(ExportResult(rows=rows, table=table), [LanePosition(LANE, 5 + rows)]))
    sys.exit(0)


def until_cancelled() -> NoReturn:
    assert isinstance(hear(), Cancel)
    say(Failed("cancelled", "told to stop", retry=True))
    sys.exit(0)


def main() -> None:
    order = hear()
    assert isinstance(order, Order)
    match order.export.name:
        case "good":
            ranges = planned()
            rows = sum(one.end - one.start for one in ranges.ranges)
            say(Progress("reading", rows, rows * 10, rows))
            print("a line of the log", file=sys.stderr)
            done(rows)
        case "environment":
            keys = sorted(key for key in os.environ if key.startswith("PACKETBOAT_"))
            print(f"{keys} {os.nice(0)} {order.lake.spark_conf}", file=sys.stderr)
            print(f"the token is {order.token}", file=sys.stderr)
            print(f"at {os.getcwd()}, to keep files in {order.state_dir}", file=sys.stderr)
            done(0)
        case "fails":
            say(Failed("superseded", f"with {order.token} another attempt may do it", retry=True))
        case "dies":
            print("the last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "babbles":
            print("this is no message", flush=True)
            time.sleep(600)
        case "waits":
            planned()
            until_cancelled()
        case "deaf":
            planned()
            subprocess.Popen(["sleep", "600"])  # as Spark's JVM is there beside the driver
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "commits":
            planned()
            hear()
            done(7)
        case "loud":
            for number in range(5_000):
                print(f"line {number} " + "x" * 50, file=sys.stderr)
            done(1)


if __name__ == "__main__":
    main()
