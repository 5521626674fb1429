"""Options: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from packetboat.credentials import ClientCredentials, StaticToken, TokenFile
from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.spark.errors import InvalidOption
from packetboat.spark.options import ReadOptions, read_options
from packetboat.spark.ranges import Lane, Split, cut, within

HERE = {"PACKETBOAT_URL": "https://here", "PACKETBOAT_TOKEN": "environment"}


def options(**given: str) -> ReadOptions:
    return read_options({"topic": "orders"} | given, HERE)


def test_without_more_it_is_all_of_a_topic_from_where_the_environment_says() -> None:
    read = options()
    assert (read.topics, read.partitions) == (("orders",), None)
    assert (read.start, read.end) == ("earliest", "latest")
    assert read.connection.urls == ("https://here",)
    assert read.connection.credentials == StaticToken("environment")
    assert read.connection.retry_for_s == 0


def test_names_are_of_any_case_and_values_are_trimmed() -> None:
    read = read_options({"Topic": "a, b,a", "Rows_Per_Split": " 7 ", "ON_TRUNCATED": "Skip"}, HERE)
    assert (read.topics, read.rows_per_split, read.skips_truncated) == (("a", "b"), 7, True)


@pytest.mark.parametrize(
    ("given", "credentials"),
    [
        ({"token": "t"}, StaticToken("t")),
        ({"token_file": "/run/token"}, TokenFile("/run/token")),
        ({"client_id": "c", "client_secret": "s"}, ClientCredentials("c", "s")),
    ],
)
def test_credentials_that_are_given_come_first(given: dict[str, str], credentials: object) -> None:
    assert options(**given).connection.credentials == credentials


def test_a_profile_keeps_its_credentials_from_other_servers(tmp_path: Path) -> None:
    (tmp_path / "packetboat").mkdir()
    profile = tmp_path / "packetboat" / "config.toml"
    profile.write_text('[profiles.default]\nurl = "https://own"\ntoken = "secret"\n')
    profile.chmod(0o600)
    own = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    assert read_options({"topic": "t"}, own).connection.credentials == StaticToken("secret")
    other = read_options({"topic": "t", "url": "https://other"}, own)
    assert other.connection.credentials is None


def test_places() -> None:
    assert options(from_offset="17").start == 17
    assert options(from_offset="Latest").start == "latest"
    assert options(to_offset='{"0": 5, "3/1": 9}').end == {(0, 0): 5, (3, 1): 9}
    assert options(from_time="2026-01-01T00:00:00Z").start == datetime(2026, 1, 1, tzinfo=UTC)
    east = timezone(timedelta(hours=2))
    assert options(to_time="2026-01-01T00:00+02:00").end == datetime(2026, 1, 1, tzinfo=east)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "a"}, r"no option of packetboat: topics \(there are: .*topic, url\)"),
        ({"path": "a", "zoo": "b"}, "no option of packetboat: path, zoo"),
        ({"topic": " , "}, "topic is missing"),
        ({"rows_per_split": "0"}, "rows_per_split: a number from 1 on, not '0'"),
        ({"max_bytes_per_second": "1MB"}, "max_bytes_per_second: a number"),
        ({"retry_for_seconds": "nan"}, "retry_for_seconds: seconds, from 0 on"),
        ({"partitions": "1;2"}, "partitions: numbers of partitions"),
        ({"on_truncated": "ignore"}, "on_truncated: fail or skip"),
        ({"from_offset": "-1"}, "from_offset: earliest, latest, an offset, or"),
        ({"to_offset": '{"0": true}'}, "to_offset: earliest"),
        ({"to_offset": '{"a": 1}'}, "to_offset: earliest"),
        ({"to_offset": "[1]"}, "to_offset: earliest"),
        ({"from_time": "2026-01-01T00:00:00"}, "from_time: a time as of RFC 3339, with its zone"),
        ({"from_time": "2026-01-01T00:00:00Z", "from_offset": "1"}, "not both"),
        ({"topic": "a,b", "from_offset": '{"0": 1}'}, "of one topic, not of several"),
        ({"token": "t", "token_file": "/f"}, "give one of token, token_file"),
        ({"client_id": "c"}, "client_id and client_secret go together"),
        ({"url": "here:80"}, "is no URL of a server"),
        ({"ranges": "[]"}, "topic cannot stand beside it"),
    ],
)
def test_what_means_nothing_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        options(**given)


def test_ranges_are_those_of_an_export() -> None:
    key = LaneKey("orders", "ab" * 16, 2, 1)
    text = msgspec.json.encode([LaneRange(key, 5, 9)]).decode()
    assert read_options({"ranges": text}, HERE).splits == (
        Split(Lane("orders", 2, 1), 5, 9, "ab" * 16),
    )
    assert read_options({"ranges": "[]"}, HERE).splits == ()
    with pytest.raises(InvalidOption, match="ranges is no list of ranges"):
        read_options({"ranges": '[{"start": 1}]'}, HERE)


def test_secrets_are_not_shown() -> None:
    assert "t0ken" not in repr(options(token="t0ken"))


def test_splits_are_no_longer_than_wanted() -> None:
    whole = [Split(Lane("a", 0), 3, 10, "u"), Split(Lane("a", 1), 5, 5), Split(Lane("b", 0), 0, 3)]
    pieces = cut(whole, 3, None)
    assert [(each.lane.topic, each.start, each.end) for each in pieces] == [
        ("a", 3, 6),
        ("a", 6, 9),
        ("a", 9, 10),
        ("b", 0, 3),
    ]
    assert {each.concurrent for each in pieces} == {4}
    assert {each.concurrent for each in cut(whole, 3, 2)} == {2}
    assert [each.topic_uid for each in pieces] == ["u", "u", "u", None]


@pytest.mark.parametrize(
    ("low", "high", "left"), [(0, 99, (3, 10)), (5, 7, (5, 7)), (0, 2, (3, 3)), (20, 30, (20, 20))]
)
def test_a_split_within_bounds(low: int, high: int, left: tuple[int, int]) -> None:
    found = within(Split(Lane("a", 0), 3, 10), low, high)
    assert (found.start, found.end) == left
