"""The demo's accounting: a run that lost, changed or invented a message must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo import Ledger, find_log, find_server, report


def ledger(published: dict[str, str], consumed: dict[str, str]) -> Ledger:
    made = Ledger(list(published.values()), published, consumed)
    made.acked = len(consumed)
    made.done_publishing = True
    return made


def test_a_good_run() -> None:
    good = ledger({"1": "a", "2": "b"}, {"1": "a", "2": "b"})
    assert good.complete
    assert report(good, 1.0) == 0


@pytest.mark.parametrize(
    ("published", "consumed", "problem"),
    [
        ({"1": "a"}, {}, "not consumed"),
        ({"1": "a"}, {"1": "b"}, "other content"),
        ({"1": "a"}, {"1": "a", "2": "b"}, "never published"),
    ],
)
def test_a_bad_run(published: dict[str, str], consumed: dict[str, str], problem: str) -> None:
    bad = ledger(published, consumed)
    assert any(problem in text for text in bad.problems())
    assert report(bad, 1.0) == 1


def test_missing_acks_and_refused_lines_are_problems() -> None:
    bad = ledger({"1": "a"}, {"1": "a"})
    bad.acked = 0
    bad.refused = 1
    assert len(bad.problems()) == 2


def test_an_unknown_publish_may_turn_up() -> None:
    known = ledger({"1": "a"}, {"1": "a", "2": "b"})
    known.unknown = 1
    assert known.problems() == []


def test_the_server_is_found_by_the_file_that_up_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PACKETBOAT_URL", raising=False)
    monkeypatch.delenv("PACKETBOAT_TOKEN", raising=False)
    file = tmp_path / "client.env"
    with pytest.raises(SystemExit, match="make up"):
        find_server(file)
    file.write_text("export PACKETBOAT_URL=http://127.0.0.1:1\nexport PACKETBOAT_TOKEN='t=x'\n")
    assert find_server(file) == ("http://127.0.0.1:1", "t=x")
    monkeypatch.setenv("PACKETBOAT_TOKEN", "other")
    assert find_server(file) == ("http://127.0.0.1:1", "other")


def test_a_log_is_always_found(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\n\n\xfftwo\n")
    assert find_log(log) == (str(log), ["one", "\ufffdtwo"])
    with pytest.raises(SystemExit):
        find_log(tmp_path / "none.log")
    name, lines = find_log(None)
    assert name
    assert lines
