"""Map and reduce with killed workers, in short; `make word-count` is the whole of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.word_count import LIBRARY, files_of, parts_of
from tests.chaos.word_count import counted, expected, wrong
from tests.e2e.installation import Installation

TASKS = 1000
KILLS = 8
FILES = 400


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("words") / "up")
    try:
        yield installation.start()
    finally:
        if installation.process is not None:
            installation.stop()


def test_words_are_counted_exactly_while_workers_are_killed(
    installation: Installation, tmp_path: Path
) -> None:
    files = files_of(LIBRARY)[:FILES]
    found = counted(installation, tmp_path, files, TASKS, KILLS, seed=1)
    assert wrong(found, expected(files), TASKS) == []
    assert found.kills >= 2


def test_no_word_is_cut_where_a_text_is(tmp_path: Path) -> None:
    text = "some words äöü 日本 of a_long_one " + "x" * 100 + "\nand 1 more\x0cone"
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "b.py").write_text("last words")
    files = files_of(tmp_path)
    for parts in range(1, 60):
        passages = [passage for part in parts_of(files, parts) for passage in part]
        assert "".join(passage.text() for passage in passages) == text + "last words"
        found = [word for passage in passages for word in passage.text().split()]
        assert found == [*text.split(), "last", "words"]
