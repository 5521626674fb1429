"""Names of topics and subscriptions: one rule, used at creation and quoted in every refusal."""

from __future__ import annotations

import re

from edge.problem import FieldError

MAX_NAME_CHARS = 128
PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
RULE = (
    "1 to 128 characters: letters, digits, '.', '_' and '-', the first of them a letter or a digit"
)
_NAME = re.compile(PATTERN)

MAX_LABELS = 64
MAX_LABEL_KEY_CHARS = 63
MAX_LABEL_VALUE_CHARS = 255
_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
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
