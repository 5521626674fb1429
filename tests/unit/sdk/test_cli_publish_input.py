"""Each line that `publish` reads becomes a message; a bad line is an item, too."""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat.cli import publish_input
from packetboat.cli.publish_input import Form, InputFailed, Item, Position, items, size_bytes
from packetboat.models import Outgoing

TEXT = "text/plain; charset=utf-8"


def read(path: Path, content: bytes, form: Form | None = None, first_line: int = 1) -> list[Item]:
    path.write_bytes(content)
    return list(items([path], form or Form(), Position(), first_line))


def one(content: bytes, form: Form) -> Item:
    return form.item(1, content)


def message(content: bytes, form: Form) -> Outgoing:
    item = one(content, form)
    assert item.message is not None, item.error
    return item.message


def error(content: bytes, form: Form) -> str:
    item = one(content, form)
    assert item.message is None
    return item.error or ""


def test_lines_are_messages(tmp_path: Path) -> None:
    found = read(tmp_path / "f", "a\r\n\n ä \nlast".encode())
    assert [(each.line, each.message) for each in found] == [
        (1, Outgoing(data=b"a", content_type=TEXT)),
        (3, Outgoing(data=" ä ".encode(), content_type=TEXT)),
        (4, Outgoing(data=b"last", content_type=TEXT)),
    ]


LINES = st.binary().filter(lambda b: b"\n" not in b and b.strip() and b[-1:] != b"\r")


@given(st.lists(LINES).filter(lambda lines: not lines or lines[0][:3] != b"\x1f\x8b\x08"))
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    found = read(tmp_path_factory.getbasetemp() / "lines", b"\n".join(lines) + b"\n")
    assert [each.message and each.message.data for each in found] == lines


def test_gzip_is_seen_by_its_beginning(tmp_path: Path) -> None:
    found = read(tmp_path / "any-name", gzip.compress(b"a\nb\n"))
    assert [each.message and each.message.data for each in found] == [b"a", b"b"]


def test_a_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % n for n in range(20_000))
    (tmp_path / "f").write_bytes(gzip.compress(lines)[:-1000])
    found = items([tmp_path / "f"], Form(), Position())
    assert [next(found).line for _ in range(1000)] == list(range(1, 1001))
    with pytest.raises(InputFailed, match="end-of-stream"):
        list(found)


def test_several_files_count_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    position = Position()
    found = list(items([tmp_path / "a", tmp_path / "b"], Form(), position))
    assert [each.line for each in found] == [1, 2, 3]
    assert position.read_bytes == size_bytes([tmp_path / "a", tmp_path / "b"]) == 6


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BufferedReader(io.BytesIO(gzip.compress(b"x\ny")))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
    found = list(items([Path("-")], Form(), Position()))
    assert [each.message and each.message.data for each in found] == [b"x", b"y"]


def test_a_first_line(tmp_path: Path) -> None:
    found = read(tmp_path / "f", b"a\nb\nc\n", first_line=3)
    assert [each.line for each in found] == [3]


def test_a_line_without_an_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_input, "MAX_MESSAGE_BYTES", 10)
    found = read(tmp_path / "f", b"x" * 1000 + b"\n" + b"y" * 10 + b"\n" + b"z" * 11)
    assert [each.error for each in found] == [
        "longer than any message may be",
        None,
        "longer than any message may be",
    ]


def test_bytes_that_are_no_text() -> None:
    assert message(b"\xff\xfe", Form()).content_type == "application/octet-stream"


def test_a_whole_file_is_a_message(tmp_path: Path) -> None:
    found = read(tmp_path / "order.json", b'{"a":\n1}\n', Form(whole=True))
    assert [each.message for each in found] == [
        Outgoing(data=b'{"a":\n1}\n', content_type="application/json")
    ]


def test_a_key_of_the_line() -> None:
    form = Form(key_field="customer.id")
    found = message(b'{"customer": {"id": 17}}', form)
    assert (found.key, found.content_type) == ("17", "application/json")
    assert error(b'{"customer": 17}', form) == "no member 'customer.id' to be the key"
    assert error(b"{", form).startswith("not JSON")


def test_keys_and_attributes_of_all() -> None:
    form = Form(key="k", attributes={"a": "1", "b": "1"})
    assert (message(b"x", form).key, message(b"x", form).attributes) == ("k", {"a": "1", "b": "1"})
    own = b'{"data": 1, "key": "own", "attributes": {"b": "2"}}'
    found = message(own, Form(ndjson=True, key="k", attributes={"a": "1", "b": "1"}))
    assert (found.key, found.attributes) == ("own", {"a": "1", "b": "2"})


def test_every_member_of_ndjson() -> None:
    line = {
        "data": {"x": 1},
        "content_type": "application/json",
        "key": "k",
        "attributes": {"a": "b"},
        "priority": 2,
        "idempotency_key": "i",
        "deliver_at": "2026-01-01T00:00:00Z",
        "ttl_seconds": 5,
    }
    assert message(json.dumps(line).encode(), Form(ndjson=True)) == Outgoing(
        data={"x": 1},
        content_type="application/json",
        key="k",
        attributes={"a": "b"},
        priority=2,
        idempotency_key="i",
        deliver_at=datetime(2026, 1, 1, tzinfo=UTC),
        ttl_seconds=5,
    )


def test_bytes_in_ndjson() -> None:
    line = json.dumps({"data_base64": base64.b64encode(b"\x00\xff").decode()})
    assert message(line.encode(), Form(ndjson=True)).data == b"\x00\xff"


def test_what_tail_prints_is_published_again() -> None:
    line = {"data": "x", "message_id": "m", "ack_id": "a", "attempt": 2, "publish_time": "…"}
    line |= {"partition": 1, "offset": 5, "publisher_id": None, "content_type": TEXT}
    found = message(json.dumps(line).encode(), Form(ndjson=True))
    assert found == Outgoing(data="x", content_type=TEXT)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "not a JSON object"),
        ("{}", "either data or data_base64"),
        ('{"data": 1, "data_base64": ""}', "either data or data_base64"),
        ('{"data": 1, "atributes": {}}', "unknown member 'atributes'"),
        ('{"data": 1, "key": 1}', "Expected `str | null`, got `int` - at `$.key`"),
        ('{"data": 1, "attributes": {"a": 1}}', "Expected `str`"),
        ('{"data_base64": "?"}', "base64"),
        ('{"data": 1, "deliver_at": "2026-01-01T00:00:00"}', "deliver_at has no time zone"),
        ("{", "not JSON"),
    ],
)
def test_bad_lines_of_ndjson(line: str, said: str) -> None:
    assert said in error(line.encode(), Form(ndjson=True))


def test_what_is_no_json_is_refused() -> None:
    """Python reads it; no other reader of JSON would."""
    assert "JSON has no NaN" in error(b'{"data": [NaN]}', Form(ndjson=True))


def test_a_resume_id_names_lines() -> None:
    form = Form(resume_id="monday")
    assert form.item(7, b"x").message == form.item(7, b"x").message
    assert [m and m.idempotency_key for m in (form.item(n, b"x").message for n in (7, 8))] == [
        "monday/7",
        "monday/8",
    ]
    own = Form(ndjson=True, resume_id="monday").item(1, b'{"data": 1, "idempotency_key": "own"}')
    assert own.message is not None
    assert own.message.idempotency_key == "own"
