"""Plain settings of a subscription have one declaration, which rows, values and bodies take."""

from __future__ import annotations

from datetime import UTC, datetime
from types import NoneType
from typing import Any, NoReturn, get_args

import msgspec
import pytest

from gateway.subscriptions.bodies import changed, new_spec, spec_of, view
from metadata.models import SubscriptionRow
from metadata.types import Subscription, SubscriptionSpec
from openapi.contract import fields_of
from openapi.subscriptions import PlainSettings, SubscriptionCreate, SubscriptionPut

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = SubscriptionRow.__table__.columns
SETTINGS: dict[str, Any] = {
    "dead_letter_topic": "letters",
    "filter": "priority > 1",
    "max_outstanding": 7,
    "labels": {"team": "shop"},
}


@pytest.mark.parametrize("field", msgspec.structs.fields(PlainSettings), ids=lambda one: one.name)
def test_each_plain_setting_has_a_column_of_its_name(field: msgspec.structs.FieldInfo) -> None:
    column = COLUMNS[field.name]
    assert column.nullable == (NoneType in get_args(field.type))
    assert column.nullable == (field.default is None), "its default is not null, or nothing else is"


def test_fields_are_mapped_by_name() -> None:
    put = SubscriptionPut(topic="orders", **SETTINGS)
    assert fields_of(PlainSettings, put) == SETTINGS
    assert PlainSettings(**fields_of(PlainSettings, put)) == PlainSettings(**SETTINGS)


def test_plain_settings_go_from_the_body_to_the_answer() -> None:
    body = SubscriptionCreate(name="s", **SETTINGS)
    spec = new_spec(body, "orders", _never_pushed)
    assert fields_of(PlainSettings, spec) == SETTINGS
    stored = Subscription(
        tenant_id=b"t",
        uid=b"u",
        topic_uid=b"o",
        topic_name="orders",
        generation=0,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        **fields_of(SubscriptionSpec, spec),
    )
    assert spec_of(stored) == spec
    assert fields_of(PlainSettings, view(stored)) == SETTINGS
    blank = changed(SubscriptionPut(), stored, _never_pushed)
    assert fields_of(PlainSettings, blank) == fields_of(PlainSettings, PlainSettings())


def test_the_values_of_the_metadata_store_cannot_be_changed() -> None:
    spec = SubscriptionSpec("s")
    with pytest.raises(AttributeError):
        spec.filter = "true"  # type: ignore[misc]


def _never_pushed(*_: object) -> NoReturn:
    raise AssertionError("no body here has a push")
