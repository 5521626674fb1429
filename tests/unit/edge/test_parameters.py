"""Query parameters are held to the types and limits of the contract."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from edge.parameters import Query, choice_of, integer_of, number_of, text_of
from edge.problem import Problem
from openapi.contract import Parameter

COUNT = Parameter("", "count", "query", "A count.", Annotated[int, Meta(ge=1, le=9)], default=3)
WAIT = Parameter("", "wait", "query", "Seconds.", Annotated[float, Meta(ge=0, le=60)], default=0)
ORDER = Parameter("", "order", "query", "An order.", Literal["newest", "oldest"])
WHO = Parameter("", "who", "query", "A name.", Annotated[str, Meta(max_length=3)])
WORD = Parameter("", "word", "query", "A word.", Annotated[str, Meta(pattern=r"^[a-z]{1,3}\Z")])
ID = Parameter("", "id", "query", "An id.", Annotated[str, Meta(min_length=1, max_length=3)])
PLACES = Parameter("", "places", "query", "Numbers.", Annotated[str, Meta(pattern=r"^[0-9,]+\Z")])


@pytest.mark.parametrize(
    ("read", "parameter", "text", "value"),
    [
        (integer_of, COUNT, "9", 9),
        (integer_of, COUNT, None, 3),
        (number_of, WAIT, "0.5", 0.5),
        (number_of, WAIT, "1e1", 10.0),
        (number_of, WAIT, None, 0),
        (choice_of, ORDER, "oldest", "oldest"),
        (choice_of, ORDER, None, None),
        (text_of, WHO, "abc", "abc"),
        (text_of, WHO, None, None),
        (text_of, WORD, "abc", "abc"),
        (text_of, PLACES, "1,2", "1,2"),
    ],
)
def test_values_that_fit(read: Any, parameter: Parameter, text: str | None, value: Any) -> None:
    assert read(parameter, text) == value


@pytest.mark.parametrize(
    ("read", "parameter", "text", "rule"),
    [
        (integer_of, COUNT, "10", "an integer from 1 to 9"),
        (integer_of, COUNT, "0", "an integer from 1 to 9"),
        (integer_of, COUNT, "1.0", "an integer from 1 to 9"),
        (number_of, WAIT, "61", "a number from 0 to 60"),
        (number_of, WAIT, "nan", "a number from 0 to 60"),
        (number_of, WAIT, "", "a number from 0 to 60"),
        (number_of, WAIT, "1_0", "a number from 0 to 60"),
        (number_of, WAIT, "1e99", "a number from 0 to 60"),
        (choice_of, ORDER, "best", "one of newest, oldest"),
        (text_of, WHO, "abcd", "at most 3 characters"),
        (text_of, WHO, "\0", "at most 3 characters"),
        (text_of, WORD, "abcd", r"must match the pattern ^[a-z]{1,3}\Z"),
        (text_of, WORD, "abc\n", r"must match the pattern ^[a-z]{1,3}\Z"),
        (text_of, ID, "", "at least 1 and at most 3 characters"),
    ],
)
def test_a_refusal_says_the_rule(read: Any, parameter: Parameter, text: str, rule: str) -> None:
    with pytest.raises(Problem) as error:
        read(parameter, text)
    assert error.value.status == 400
    assert [tuple(each) for each in error.value.errors] == [(parameter.name, rule)]


def test_a_text_that_is_not_of_the_pattern_is_refused_with_its_own_rule() -> None:
    with pytest.raises(Problem) as error:
        text_of(PLACES, "1,2\n", "numbers with commas between")
    assert [tuple(each) for each in error.value.errors] == [
        ("places", "numbers with commas between")
    ]


def test_the_last_of_a_repeated_parameter_counts() -> None:
    query = Query({"query_string": b"count=1&count=2&order=&who=%61%2B+"})
    assert query.integer(COUNT) == 2
    assert query.several("count") == ["1", "2"]
    assert query.all() == {"count": "2", "order": "", "who": "a+ "}
    assert Query({"query_string": b""}).choice(ORDER) is None
