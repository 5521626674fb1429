"""Calls and resources of the SDK are written from the contract's rows."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from openapi.contract import Body
from openapi.sdk import calls, flags, resources
from openapi.sdk.methods import Area, Given, Method


def one(method: Method, **members: object) -> Area:
    area = Area("things", "Things", "Things that a test makes.", (method,))
    return area._replace(**members)


def test_a_call_makes_a_request_of_its_arguments() -> None:
    """An optional field that is None is not sent, and a field with a default of ours always is."""
    method = Method(
        "acquire",
        "acquireLock",
        "Wait.",
        left_out=("holder", "labels", "request_id"),
        given=(Given("wait_seconds", kind="float", default="0"),),
        waits="wait_seconds",
    )
    assert calls.written(one(method)).endswith(
        "def acquire_lock(name: str, ttl_seconds: float | None, wait_seconds: float)"
        " -> Call[Lock]:\n"
        '    body: dict[str, Any] = {"wait_seconds": wait_seconds}\n'
        "    put(body, ttl_seconds=ttl_seconds)\n"
        '    return waiting(change("POST", f"/locks/{part(name)}:acquire", body, Lock),'
        " wait_seconds)\n"
    )


def test_a_change_whose_answer_tells_a_secret_is_not_sent_twice() -> None:
    """The answer to a creation has a class of its own then."""
    secret, plain = Method("put", "putKey", "Put."), Method("put", "putPolicy", "Put.")
    assert "safe=" not in calls.written(one(secret))
    assert "safe=True" in calls.written(one(plain))


def test_a_reading_and_a_creation() -> None:
    """A GET is sent again, a POST is not unless its row says so."""
    assert "fetch(" in calls.written(one(Method("get", "getPolicy", "Get.")))
    assert "safe=" not in calls.written(one(Method("create", "createPolicy", "Create.")))
    again = Method("create", "createPolicy", "Create.", safe="True")
    assert "safe=True" in calls.written(one(again))


def test_the_only_member_of_an_answer_is_the_result() -> None:
    text = calls.written(one(Method("holds", "listTopicHolds", "Return the holds.")))
    assert 'member("holds", tuple[Hold, ...])' in text
    assert "-> Call[tuple[Hold, ...]]:" in text


def test_a_listing_is_two_methods() -> None:
    text = resources.written(one(Method("all", "listTopics", "Iterate.", page="one_page")))
    assert "def all(self, *, page_size: int = 100, " in text
    assert "async def one_page(self, *, page_size: int = 100, page_token: str | None" in text


def test_a_method_without_its_first_argument_sends_the_operation_of_its_own() -> None:
    method = Method("get", "getQuotas", "Return the quotas.", own="getOwnQuotas")
    text = resources.written(one(method))
    assert "self, tenant: str | None = None, *" in text
    own, other = text.index("calls.get_own_quotas()"), text.index("calls.get_quotas(tenant)")
    assert text.index("if tenant is None:") < own < other


def test_words_of_the_language_have_another_name() -> None:
    text = calls.written(one(Method("usage", "getOwnUsage", "Iterate over the usage.")))
    assert "since: datetime | None, until: datetime | None" in text
    assert '{"from": since, "to": until, "metric": metric}' in text


def test_a_required_argument_comes_first_and_a_choice_is_by_keyword() -> None:
    method = Method("update", "changeSchema", "Change.", keyword=("compatibility",))
    text = resources.written(one(method))
    assert "(self, name: str, *, compatibility: Compatibility, if_match: str | None = None" in text


class Thing(Body):
    """A thing that a test makes."""

    mode: Literal["fast", "safe"] = "safe"
    """The way that it is made."""
    seconds: Annotated[float, Meta(ge=1, le=60)] | None = 2.5
    """Seconds that it takes, at most."""
    count: int = 1


def test_an_option_has_the_words_limits_and_default_of_its_field() -> None:
    assert flags.option_text(flags.Flag("Mode", Thing, "mode")) == (
        "Mode = Annotated[str | None, typer.Option('--mode', help='The way that it is made."
        " One of `fast` and `safe`. Default: safe.')]"
    )
    seconds = flags.Flag("Seconds", Thing, "seconds", "--for", "SECONDS", patched=True)
    assert flags.option_text(seconds) == (
        "Seconds = Annotated[float | None, typer.Option('--for', metavar='SECONDS',"
        " help='Seconds that it takes, at most.', min=1, max=60)]"
    )


def test_an_option_without_a_sentence_is_refused() -> None:
    with pytest.raises(TypeError, match="describe it"):
        flags.option_text(flags.Flag("Count", Thing, "count"))


def test_all_fields_of_a_body_may_be_one_argument() -> None:
    method = Method("create", "createJob", "Create.", spec="JobSpec", untagged=True)
    assert calls.written(one(method)).endswith(
        "def create_job(name: str, spec: JobSpec) -> Call[Job]:\n"
        '    body: dict[str, Any] = {"name": name, **msgspec.to_builtins(spec)}\n'
        '    return change("POST", "/jobs", body, Job)\n'
    )


def test_a_member_of_an_answer_may_be_the_result_or_nothing() -> None:
    method = Method("reschedule", "rescheduleMessage", "Move.", member="scheduled_for")
    assert 'member("scheduled_for", datetime)' in calls.written(one(method))
    alive = Method("alive", "healthz", "Return.", result="None", safe="False")
    assert calls.written(one(alive)).endswith('    return Call(get("/healthz"), nothing)\n')


def test_the_choices_of_a_query_may_be_settings() -> None:
    """Settings come after the arguments of the path, and go through the function of the body."""
    method = Method(
        "list", "getAudit", "List.", own="getOwnAudit", settings="AuditFilter", body="audit_query"
    )
    text = calls.written(one(method))
    assert "get_audit(tenant: str, settings: Mapping[str, Any], page_size: int" in text
    assert (
        'page("/audit", "entries", AuditEntry, page_size, page_token, audit_query(settings))'
        in text
    )
    assert "timeout_s: float | None = None, **filters: Unpack[AuditFilter]" in resources.written(
        one(method)
    )
