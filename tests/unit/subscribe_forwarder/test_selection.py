"""Verdicts over a batch: index and evaluation together say what plain evaluation says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edge.expressions import compile_expression
from metadata.ids import new_uid
from metadata.types import SkipRule
from store_nodes import record_batch
from store_nodes.record_batch import Message
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.selection import Selection
from subscribe_forwarder.delivery.selection import of as selection_of
from subscribe_forwarder.delivery.selection.variables import Bodies
from subscribe_forwarder.delivery.state.cursor import Settled
from tests.unit.subscribe_forwarder.subscribe_support import subscription

TIME_US = 1_767_225_600_000_000
FILTERED, SKIPPED = Settled.FILTERED, Settled.SKIPPED


class Stored(NamedTuple):
    batch: bytes
    base_offset: int = 100
    log_time_us: int = TIME_US
    stage: int | None = None
    indices: tuple[int, ...] | None = None


def batch_of(messages: list[Message]) -> Batch:
    return Batch(Stored(record_batch.encode(messages, TIME_US)), partition=2)


def message(data: object = None, content_type: str = "application/json", **fields: Any) -> Message:
    return Message(json.dumps(data).encode(), content_type, **fields)


def delivered(selection: Selection, batch: Batch) -> list[int]:
    verdicts = selection.verdicts(batch)
    if verdicts is None:
        return list(range(len(batch.messages())))
    return [index for index, verdict in enumerate(verdicts) if verdict is None]


def test_everything_delivered_is_said_at_once() -> None:
    batch = batch_of([message(1), message(2)])
    assert Selection("true", ()).verdicts(batch) is None
    assert Selection(None, ["false"]).verdicts(batch) is None
    assert Selection("false", ()).verdicts(batch) == [FILTERED, FILTERED]


def test_a_stored_expression_that_is_refused_is_true_for_no_message() -> None:
    batch = batch_of([message(1), message(2)])
    refused = 'r"""a""" == "a"'
    rule = SkipRule(new_uid(), refused, "", "", datetime.now(UTC))
    filtering = selection_of(replace(subscription(), filter=refused))
    skipping = selection_of(replace(subscription(), skip_rules=(rule,)))
    assert filtering is not None
    assert filtering.verdicts(batch) == [FILTERED, FILTERED]
    assert skipping is not None
    assert skipping.verdicts(batch) is None


def test_a_skip_rule_is_asked_after_the_filter() -> None:
    kinds = ["a", "b", "c", "c"]
    batch = batch_of([message({"n": n}, attributes={"kind": k}) for n, k in enumerate(kinds)])
    selection = Selection(
        'attributes.kind != "a"', ['attributes.kind in ["a", "b"]', "data.n == 3"]
    )
    assert selection.verdicts(batch) == [FILTERED, SKIPPED, None, SKIPPED]


def test_what_an_expression_sees_of_a_message() -> None:
    batch = batch_of(
        [
            message({"a": {"b": [1]}}, key="k", priority=4, publisher_id="p"),
            message("text", content_type="text/plain"),
            Message(b"{broken", "application/json"),
            Message(b"\xff", None),
            Message(b'{"a": 1}', "application/vnd.x+json; charset=utf-8"),
        ]
    )
    for text, expected in {
        "data.a.b[0] == 1": [0],
        "data == null": [1, 2, 3],
        'has(data.a) && content_type.startsWith("application/vnd")': [4],
        'key == "k" && priority == 4 && publisher_id == "p"': [0],
        "partition == 2 && offset >= 102": [2, 3, 4],
        'publish_time == timestamp("2026-01-01T00:00:00Z")': [0, 1, 2, 3, 4],
        "attributes == {}": [0, 1, 2, 3, 4],
    }.items():
        assert delivered(Selection(text, ()), batch) == expected, text


def test_failed_evaluations_are_no_match_and_counted() -> None:
    before = metrics.filter_failed._value.get()
    selection = Selection("data.price > 1", ["data.name"])
    batch = batch_of([message({"price": 2, "name": "x"}), message({}), message(None)])
    assert delivered(selection, batch) == [0]
    assert selection.errors == 3
    assert selection.first_error == "there is no price"
    assert metrics.filter_failed._value.get() - before == 3


def test_selections_of_the_same_texts_are_equal() -> None:
    assert Selection("true", ["false"]) == Selection("true", ["false"])
    assert len({Selection("true", ()), Selection("true", ()), Selection(None, ["true"])}) == 2


def test_bodies_are_kept_within_their_limit() -> None:
    batches = [batch_of([message({"n": n}), message({"n": n + 1})]) for n in range(5)]
    bodies = Bodies(max_kept_bytes=2 * batches[0].cost_bytes)
    for batch in [*batches, *batches]:
        for index in (0, 1):
            assert bodies.body(batch, index) == msgspec.json.decode(batch.messages()[index].data)
        assert len(bodies._kept) <= 2
        assert bodies._kept_bytes == sum(kept.cost_bytes for kept, _ in bodies._kept.values())


VALUES = ["", "a", "b", "ü"]
NAMES = ["kind", "region", "no such"]
attributes = st.none() | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
bodies = st.none() | st.dictionaries(st.sampled_from(["n", "m"]), st.integers(0, 3))
messages = st.lists(
    st.builds(message, bodies, attributes=attributes, key=st.none() | st.sampled_from(VALUES)),
    min_size=1,
    max_size=12,
)
literals = st.sampled_from(VALUES).map(json.dumps)
names = st.sampled_from(NAMES).map(lambda name: f"attributes[{json.dumps(name)}]") | st.just(
    "attributes.kind"
)
lists = st.lists(literals, max_size=3).map(lambda each: f"[{', '.join(each)}]")
leaves = st.one_of(
    st.builds("{} == {}".format, names, literals),
    st.builds("{} == {}".format, literals, names),
    st.builds("{} in {}".format, names, lists),
    st.builds("{} != {}".format, names, literals),
    st.builds("data.n > {}".format, st.integers(0, 3)),
    st.builds("key == {}".format, literals),
    st.sampled_from(
        ["true", "false", '"kind" in attributes', "has(data.m)", "data.m + 1", "1/0 > 0"]
    ),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("{} && {}".format, inner, inner),
        st.builds("{} || {}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("!({})".format, inner),
        st.builds("(({}) ? ({}) : ({}))".format, inner, inner, inner),
    ),
    max_leaves=6,
)


def plain(text: str, batch: Batch) -> list[bool]:
    """Evaluate with the engine alone, which gets everything about each message."""
    expression = compile_expression(text)
    found = []
    for index, each in enumerate(batch.messages()):
        everything = {
            "attributes": each.attributes or {},
            "data": json.loads(each.data),
            "key": each.key,
            "content_type": each.content_type,
            "priority": each.priority,
            "publish_time": datetime.fromtimestamp(TIME_US / 1e6, UTC),
            "partition": 2,
            "offset": 100 + index,
            "publisher_id": each.publisher_id,
        }
        found.append(expression.matches(everything))
    return found


NUMBERS = [(1, 3), (1, 4), (2, 3), (2, 4), (5, 3)]


def test_brackets_count_beside_an_equality() -> None:
    """A filter without its brackets let other messages through, too."""
    text = 'attributes.kind == "a" && (data.n == 1 || data.n == 2) && data.m == 3'
    batch = batch_of([message({"n": n, "m": m}, attributes={"kind": "a"}) for n, m in NUMBERS])
    expected = [None if one else FILTERED for one in plain(text, batch)]
    assert Selection(text, []).verdicts(batch) == expected


@given(expressions, st.lists(expressions, max_size=2), messages)
def test_index_and_evaluation_together_say_what_evaluation_says(
    text: str, skips: Sequence[str], stored: list[Message]
) -> None:
    batch = batch_of(stored)
    skipped = [any(each) for each in zip(*(plain(skip, batch) for skip in skips), strict=True)]
    expected = [
        FILTERED if not matched else SKIPPED if skip else None
        for matched, skip in zip(plain(text, batch), skipped or [False] * len(stored), strict=True)
    ]
    verdicts = Selection(text, skips).verdicts(batch)
    assert (verdicts or [None] * len(stored)) == expected


def test_two_equalities_of_which_no_message_has_the_first() -> None:
    """The second equality was evaluated on a first survivor that did not exist (found by
    the property above).
    """
    selection = Selection('attributes.a == "1" && attributes.b == "2"', ())
    batch = batch_of([Message(b"", attributes={"b": "2"})])
    assert selection.verdicts(batch, 0, 1) == [Settled.FILTERED]
