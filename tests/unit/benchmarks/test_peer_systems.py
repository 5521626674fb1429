"""The output of the peers' own tools, and the number of messages that they are given."""

from __future__ import annotations

import math

import pytest

from benchmarks.cases import DelayedKill, Row
from benchmarks.peer_systems import GUESS_PER_S, Paced, bench_row, consumer_row, producer_row
from harness.processes import NotReady

NATS = """
  [1] 13,011 msgs/sec ~ 13 MiB/sec ~ min: 4,448.01us ~ P99: 24,246.59us (20,000 msgs)
  [2] 12,915 msgs/sec ~ 13 MiB/sec ~ min: 2,543.51us ~ P99: 23,876.20us (20,000 msgs)

 NATS JetStream asynchronous publisher aggregated stats: 25,830 msgs/sec ~ 25 MiB/sec
 message rates min 12,915 | avg 12,963 | max 13,011 | stddev 48 msgs
 latencies per operation min 2,543.51us | avg 9,818.59us | P50 8,785.19us | P99 24,036.08us
"""
PRODUCER = """9 records sent, 1.0 records/sec (0.00 MB/sec), 9.0 ms avg latency, 1.0 ms max latency.
100000 records sent, 3000.0 records/sec (2.91 MB/sec), 96.20 ms avg latency, 1345.00 ms max \
latency, 99 ms 50th, 253 ms 95th, 499 ms 99th, 1044 ms 99.9th.
50000 steady state records sent, 4000.0 records/sec (3.91 MB/sec), 56.20 ms avg latency, 345.00 \
ms max latency, 77 ms 50th, 253 ms 95th, 397 ms 99th, 1044 ms 99.9th.
"""
CONSUMER = """start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-28 05:39:33:909, 2026-11-28 05:39:38:315, 390.7354, 88.6826, 400113, 90810.9, 1119, \
3200, 118.8729, 121725.8
"""


def test_nats_bench_prints_the_sum_of_its_clients() -> None:
    row = bench_row(NATS, 51_660, 0, "")
    assert row["elapsed_s"] == pytest.approx(2.0)
    assert (row["p50_ms"], row["p99_ms"]) == pytest.approx((8.78519, 24.03608))


def test_a_consumer_of_nats_bench_has_no_latency() -> None:
    row = bench_row(" NATS JetStream durable consumer aggregated stats: 38,405 msgs/sec", 10, 0, "")
    assert math.isnan(row["p50_ms"])


def test_nats_bench_that_fails_says_why() -> None:
    with pytest.raises(NotReady, match="no stream"):
        bench_row("", 10, 1, "no stream")


def test_the_steady_state_of_the_producer_tool_counts() -> None:
    row = producer_row(PRODUCER)
    assert (row["n"], row["elapsed_s"]) == (100_000, 25.0)
    assert (row["p50_ms"], row["p99_ms"]) == (77.0, 397.0)


def test_the_consumer_tool_is_timed_without_its_joining() -> None:
    assert consumer_row(CONSUMER)["elapsed_s"] == 3.2
    assert consumer_row(CONSUMER)["n"] == 400_113


def test_tools_that_print_something_else_are_not_measured() -> None:
    for read in (producer_row, consumer_row):
        with pytest.raises(NotReady, match="no brokers"):
            read("no brokers")


def test_the_number_of_messages_follows_the_rate_of_the_last_run() -> None:
    asked: list[int] = []

    def load(messages: int) -> Row:
        asked.append(messages)
        return {"n": messages, "elapsed_s": messages / 500}

    paced = Paced()
    paced.run("publish", 4.0, load)
    paced.run("publish", 2.0, load)
    assert asked == [4 * GUESS_PER_S, 1_000]


def test_a_kill_that_fails_is_raised_at_its_end() -> None:
    def kill() -> None:
        raise NotReady("no leader")

    delayed = DelayedKill(kill, after_s=0)
    delayed.begin()
    with pytest.raises(NotReady, match="no leader"):
        delayed.end()
