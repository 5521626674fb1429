from __future__ import annotations

from structlog.testing import capture_logs

from gateway.middleware.access_log import FAILURES_PER_S, AccessLog


class Log:
    """An access log whose clock the test sets."""

    def __init__(self, every: int = 0) -> None:
        self.now_s = 100.0
        self._log = AccessLog(every, lambda: self.now_s)

    def note(self, count: int, status: int) -> list[tuple[object, object]]:
        """Note as many requests; return status and count of the lines that are written."""
        with capture_logs() as lines:
            for _ in range(count):
                self._log.note("GET", "/topics", status, 0.001, b"id")
        return [(line.get("status"), line.get("count")) for line in lines]


def test_failures_are_logged_and_other_requests_are_not() -> None:
    log = Log()
    assert log.note(3, 200) == []
    assert log.note(2, 503) == [(503, None)] * 2


def test_every_nth_request_is_logged_with_its_status() -> None:
    assert Log(every=3).note(9, 200) == [(200, None)] * 3


def test_failures_that_a_tenant_provokes_do_not_fill_the_log() -> None:
    """4,000 refused replays once wrote 924 KiB in three seconds."""
    log = Log()
    assert len(log.note(4000, 503)) == FAILURES_PER_S
    log.now_s += 1
    lines = log.note(1, 503)
    assert lines == [(None, 4000 - FAILURES_PER_S), (503, None)]
    log.now_s += 1
    assert log.note(1, 503) == [(503, None)]
