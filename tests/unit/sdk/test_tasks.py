"""Tasks by decorators: what they are called, what they take, and what a job is made of."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from packetboat.models.jobs import JobParent, TaskRetry
from packetboat.tasks import NestedJob, TaskContext, Tasks
from packetboat.tasks.definitions import FoldPart
from packetboat.tasks.executing import execute
from packetboat.tasks.nested import nested_name
from packetboat.tasks.outcomes import MAX_ERROR_CHARACTERS, Done, Failed, bounded
from packetboat.tasks.specs import spec_of, types_of
from packetboat.tasks.values import converted, decoder, encode


class Page(msgspec.Struct):
    path: str
    lines: int = 0


@dataclasses.dataclass
class Size:
    bytes: int


def context(**members: Any) -> TaskContext:
    return TaskContext(**{"job_name": "job", "index": 3, "kind": "kind"} | members)


def run(task: Any, value: object, **members: Any) -> Any:
    outcome = execute(task, encode(value), context(**members))
    return msgspec.json.decode(outcome.output) if isinstance(outcome, Done) else outcome


def test_a_kind_is_the_registry_and_the_function() -> None:
    tasks = Tasks("words")

    @tasks.map
    def count(text: str) -> int:
        return len(text)

    @tasks.map(name="kept", pool="cpu")
    def renamed(text: str) -> int:
        return len(text)

    assert (count.kind, renamed.kind) == ("words.count", "words.kept")
    assert set(tasks.definitions) == {"words.count", "words.kept"}
    assert (count.pool, renamed.pool) == ("default", "cpu")
    assert count("four") == 4


def test_two_tasks_of_one_name_are_refused() -> None:
    tasks = Tasks("words")
    tasks.map(len_of)
    with pytest.raises(ValueError, match=r"words\.len_of"):
        tasks.map(len_of)


def len_of(text: str) -> int:
    return len(text)


def test_inputs_come_as_they_are_annotated() -> None:
    tasks = Tasks("t")

    @tasks.map
    def lines(page: Page) -> Size:
        return Size(page.lines * 10)

    assert run(lines, {"path": "a", "lines": 2}) == {"bytes": 20}


def test_an_input_of_another_type_fails_for_good() -> None:
    tasks = Tasks("t")

    @tasks.map
    def lines(page: Page) -> int:
        return page.lines

    outcome = run(lines, {"path": 1})
    assert isinstance(outcome, Failed)
    assert not outcome.retry
    assert "t.lines" in outcome.error
    assert "path" in outcome.error


def test_a_second_parameter_gets_the_context() -> None:
    tasks = Tasks("t")

    @tasks.map
    def where(value: int, context: TaskContext) -> list[Any]:
        return [context.job_name, context.index, context.attempt]

    assert run(where, 0, attempt=2) == ["job", 3, 2]


def test_a_reduce_gets_typed_outputs() -> None:
    tasks = Tasks("t")

    @tasks.reduce
    def total(pages: Iterable[Page]) -> int:
        return sum(page.lines for page in pages)

    raws = iter([encode(Page("a", 1)), encode(Page("b", 2))])
    assert execute(total, raws, context()) == Done(msgspec.Raw(b"3"))


def test_a_fold_joins_from_left_to_right() -> None:
    tasks = Tasks("t")

    @tasks.fold(initial="nothing")
    def join(left: str, right: str) -> str:
        return left + right

    raws = [encode(each) for each in "abc"]
    assert execute(join, iter(raws), context()) == Done(encode("abc"))
    assert execute(join, iter(raws[:1]), context()) == Done(encode("a"))
    assert execute(join, iter([]), context()) == Done(encode("nothing"))
    part = FoldPart.of(join)
    assert execute(part, iter(raws), context()) == Done(encode(["abc"]))
    assert execute(part, iter([]), context()) == Done(encode([]))


@pytest.mark.parametrize("kind", ["generator", "no argument"])
def test_what_is_no_task_is_refused_where_it_is_decorated(kind: str) -> None:
    def generator(value: int) -> Iterator[int]:
        yield value

    def nothing() -> None:
        return None

    function: Any = generator if kind == "generator" else nothing
    with pytest.raises(TypeError, match=function.__name__):
        Tasks("t").map(function)


def test_async_functions_have_no_process() -> None:
    async def fetch(value: int) -> int:
        return value

    with pytest.raises(TypeError, match="async"):
        Tasks("t").map(isolation="process")(fetch)


def test_an_output_without_json_fails_for_good() -> None:
    tasks = Tasks("t")

    @tasks.map
    def lost(value: int) -> object:
        return object()

    @tasks.map
    def large(value: int) -> str:
        return "x" * 300_000

    for task, word in ((lost, "object"), (large, "300002 bytes")):
        outcome = run(task, 0)
        assert isinstance(outcome, Failed)
        assert not outcome.retry
        assert word in outcome.error


def test_an_error_says_where_it_came_from_and_stays_short() -> None:
    tasks = Tasks("t")

    @tasks.map
    def wrong(value: int) -> int:
        raise KeyError("x" * 50_000)

    outcome = run(wrong, 0)
    assert outcome.retry
    assert outcome.error.startswith("Traceback")
    assert "in wrong" in outcome.error
    assert len(outcome.error) <= MAX_ERROR_CHARACTERS


def test_a_cut_text_keeps_both_ends() -> None:
    text = bounded("start" + "x" * 10_000 + "end")
    assert text.startswith("start")
    assert text.endswith("end")
    assert "characters" in text


def test_values_survive_json() -> None:
    words = Counter("abracadabra")
    assert decoder(Counter[str])(encode(words)) == words
    assert decoder(Size)(encode(Size(3))) == Size(3)
    assert converted({"1": 2}, dict[int, int]) == {1: 2}


def test_a_job_is_as_its_tasks_say_unless_it_says_otherwise() -> None:
    tasks = Tasks("t")
    retry = TaskRetry(min_backoff_seconds=2)
    task = tasks.map(pool="cpu", max_attempts=7, retry=retry)(len_of)

    @tasks.reduce(pool="big")
    def total(numbers: Iterator[int]) -> int:
        return sum(numbers)

    spec = spec_of(task, total, {})
    assert (spec.map, spec.reduce) == ("t.len_of", "t.total")
    assert (spec.pool, spec.reduce_pool) == ("cpu", "big")
    assert (spec.max_attempts, spec.retry) == (7, retry)
    other = spec_of(task, total, {"pool": "gpu", "max_attempts": 1, "name": "n", "priority": 3})
    assert (other.pool, other.max_attempts, other.priority) == ("gpu", 1, 3)
    assert spec_of("a.b", None, {}).map == "a.b"


def test_types_of_a_result_are_those_of_the_functions() -> None:
    tasks = Tasks("t")

    @tasks.map
    def nests(value: int, context: TaskContext) -> NestedJob[int] | int:
        return value

    assert types_of(tasks.map(len_of), "elsewhere") == (int, Any)
    assert types_of(nests, None)[0] is Any


def test_a_nested_job_knows_its_parent() -> None:
    task = Tasks("t").map(len_of)
    nested = context(job_name="words", index=7).job(task, ["a"], labels={"a": "b"})
    assert nested.name == "words.7"
    assert nested.spec.parent == JobParent("words", 7)
    assert nested.spec.labels == {"a": "b"}
    assert nested.encoded().inputs == [msgspec.Raw(b'"a"')]


def test_nested_names_are_bounded_and_differ() -> None:
    names = {nested_name("x" * 128, "map", index) for index in range(100)}
    assert len(names) == 100
    assert max(map(len, names)) <= 128
    assert nested_name("a", "reduce", 5) == "a.reduce"


def test_annotations_that_cannot_be_read_are_an_error() -> None:
    def wrong(value):  # type: ignore[no-untyped-def]
        return value

    wrong.__annotations__["value"] = "Missing"
    task = Tasks("t").map(wrong)
    with pytest.raises(TypeError, match="Missing"):
        _ = task.decode
