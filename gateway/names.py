"""The rules of names and labels, with the words of their refusals."""

from __future__ import annotations

import re

from edge.problem import FieldError
from openapi.common import (
    LABEL_KEY_PATTERN,
    MAX_LABEL_KEY_CHARS,
    MAX_LABEL_VALUE_CHARS,
    MAX_LABELS,
    MAX_NAME_CHARS,
    NAME_PATTERN,
)

RULE = (
    f"1 to {MAX_NAME_CHARS} characters: letters, digits, '.', '_' and '-', the first of them a "
    "letter or a digit"
)
_NAME = re.compile(NAME_PATTERN)
_LABEL_KEY = re.compile(LABEL_KEY_PATTERN)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def name_errors(name: str, field: str = "name") -> list[FieldError]:
    return [] if _NAME.fullmatch(name) else [FieldError(field, RULE)]


def label_errors(labels: dict[str, str]) -> list[FieldError]:
    if len(labels) > MAX_LABELS:
        return [FieldError("labels", f"at most {MAX_LABELS} labels")]
    errors = []
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            errors.append(
                FieldError(
                    "labels",
                    f"the key {key[:80]!r}: 1 to {MAX_LABEL_KEY_CHARS} letters, digits, '.', '_', "
                    "'/' and '-', the first of them a letter or a digit",
                )
            )
        elif len(value) > MAX_LABEL_VALUE_CHARS or _CONTROL.search(value):
            errors.append(
                FieldError(
                    f"labels.{key}",
                    f"at most {MAX_LABEL_VALUE_CHARS} characters, no control characters",
                )
            )
    return errors
