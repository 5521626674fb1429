from __future__ import annotations

from spark_exports.order import LakeSettings
from spark_exports.runner.driver_log import (
    MAX_LINE_CHARS,
    MAX_TOLD_CHARS,
    MAX_UNTOLD_CHARS,
    TAIL_CHARS,
    DriverLog,
)
from spark_exports.runner.secrets import Redaction


def test_lines_are_told_once_and_in_order() -> None:
    log = DriverLog()
    for number in range(3):
        log.add(f"line {number}")
    assert log.take() == "line 0\nline 1\nline 2\n"
    assert log.take() is None
    log.add("line 3")
    assert log.take_last() == "line 3\n"


def test_what_nobody_takes_is_bounded_and_the_newest_is_kept() -> None:
    log = DriverLog()
    for number in range(10_000):
        log.add(f"line {number} " + "x" * 100)
    told = []
    while (text := log.take()) is not None:
        assert len(text) <= MAX_TOLD_CHARS + 200
        told.append(text)
    lines = "".join(told).splitlines()
    assert sum(map(len, told)) <= MAX_UNTOLD_CHARS + 200
    assert lines[-1].startswith("line 9999 ")
    assert lines[0] == f"… {10_000 - len(lines) + 1} lines left out"
    assert len(log.tail) <= TAIL_CHARS


def test_the_last_telling_has_the_end() -> None:
    log = DriverLog()
    for number in range(1_000):
        log.add(f"line {number} " + "x" * 100)
    last = log.take_last() or ""
    assert last.splitlines()[-1].startswith("line 999 ")
    assert len(last) <= MAX_TOLD_CHARS + 200


def test_a_long_line_is_cut() -> None:
    log = DriverLog()
    log.add("x" * (MAX_LINE_CHARS + 5))
    assert log.take() == "x" * MAX_LINE_CHARS + " …\n"


def test_secrets_of_a_lake_are_hidden_in_every_form() -> None:
    lake = LakeSettings(
        "default",
        "s3://b",
        {"type": "sql", "uri": "postgresql+psycopg://lake:p%40ssword@db/lake"},
        {"s3.secret-access-key": "AKIAsecret", "s3.endpoint": "https://s3.example.com"},
        spark_conf={"spark.hadoop.fs.s3a.secret.key": "another-one"},
    )
    hide = Redaction(lake, "t-o-k-e-n")
    text = "p%40ssword p@ssword AKIAsecret another-one t-o-k-e-n https://s3.example.com"
    assert hide(text) == "*** *** *** *** *** https://s3.example.com"
