"""The limits of a message's attributes, and lengths of text in UTF-8."""

from __future__ import annotations

from edge.cloud_event import PREFIX, SPEC_VERSION, context_of, fault_of
from edge.problem import refuse
from openapi.publish import MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES


def check_attributes(attributes: dict[str, str], field: str) -> None:
    """Raise a 422 Problem that names the limit, if the attributes exceed one."""
    if len(attributes) > MAX_ATTRIBUTES:
        refuse(field, f"at most {MAX_ATTRIBUTES} attributes, not {len(attributes)}.")
    for name, value in attributes.items():
        if not name or longer_than(name, MAX_ATTRIBUTE_NAME_BYTES):
            refuse(field, f"a name has 1 to {MAX_ATTRIBUTE_NAME_BYTES} bytes of UTF-8.")
        if longer_than(value, MAX_ATTRIBUTE_BYTES):
            detail = f"at most {MAX_ATTRIBUTE_BYTES} bytes of UTF-8."
            refuse(f"{field}.{name[:64]}", detail)
    if SPEC_VERSION in attributes:
        fault = fault_of(context_of(attributes))
        if fault is not None:
            refuse(f"{field}.{PREFIX}{fault.name}", fault.detail)


def longer_than(text: str, limit_bytes: int) -> bool:
    """Return whether the UTF-8 of `text` is longer; nearly always without encoding it."""
    length = len(text)
    if length * 4 <= limit_bytes:
        return False
    return length > limit_bytes or len(text.encode("utf-8", "surrogatepass")) > limit_bytes
