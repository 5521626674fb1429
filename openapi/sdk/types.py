"""The types of the contract as the SDK writes them."""

from __future__ import annotations

import types
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from openapi import (
    access,
    export_runners,
    export_runs,
    exports,
    jobs,
    publish,
    schedules,
    schemas,
    usage,
    webhooks,
)
from openapi.json_schema import without_int

MODELS: dict[str, str] = {
    "Client": "OAuthClient",
    "ClientMade": "OAuthClient",
    "KeyMade": "Key",
    "TenantMade": "Tenant",
    "FilterPreviewSamples": "FilterSamples",
    "SchemaVersionListed": "SchemaVersion",
    "FirstOwnerMade": "Owner",
    "LimitsBody": "Limits",
    "TopicRetention": "Retention",
    "ParkedKeyListed": "ParkedKey",
    "RetryPolicyView": "RetryPolicy",
    "PushView": "PushEndpoint",
    "RedriveEdit": "Edit",
    "LetterMessage": "StoredMessage",
    "JobContent": "JobSpec",
    "TaskOutput": "JobOutput",
    "TaskCompletion": "Completion",
    "TaskFailing": "Failing",
    "LeaseFailure": "TaskFailure",
    "Message": "Content",
    "Delivery": "Message",
    "BatchItem": "Outgoing",
    "Replayed": "ReplayPage",
    "ExportMaintenanceView": "ExportMaintenance",
    "LakeTableGiven": "ExportTable",
    "LakeTableState": "ExportTable",
    "ExportRunProgress": "ExportProgress",
    "ExportRunStage": "ExportProgress",
    "ExportRunResult": "ExportResult",
    "RunFailure": "ExportFailure",
    "RunFailureGiven": "ExportFailure",
    "CountDifference": "HourDifference",
    "ExportLaneKey": "LaneKey",
    "ExportLanePosition": "LanePosition",
    "ExportLaneRange": "LaneRange",
    "ExportSpecMaintenance": "SpecMaintenance",
    "ExportRunLease": "ClaimedExportRun",
    "ExportRunRenewed": "ExportLease",
}
"""The names of models that differ from the classes of the contract."""
WORDS: dict[Any, str] = {
    schemas.Type: "SchemaType",
    schemas.Compatibility: "Compatibility",
    schedules.MissedRuns: "MissedRuns",
    access.Role: "Role",
    usage.Order: "Order",
    webhooks.PushFormat: "PushFormat",
    webhooks.SigningKind: "SigningKind",
    jobs.OnFailure: "OnFailure",
    jobs.Phase: "Phase",
    jobs.JobState: "JobState",
    jobs.TaskState: "TaskState",
    exports.BodyForm: "ExportBody",
    exports.Format: "ExportFormat",
    exports.PartitionBy: "ExportPartitionBy",
    exports.MissedRuns: "ExportMissedRuns",
    export_runs.Kind: "ExportKind",
    export_runners.FinishedState: "FinishedState",
}
"""The names of types that have a few words."""
NOTHING = (NoneType, UnsetType)
TIMES = {"from": "since", "to": "until"}
"""The names in Python of the two ends of a span of time; `from` is a word of the language."""


def model_name(kind: type) -> str:
    """Return the name that a class of the contract has in the SDK."""
    return MODELS.get(kind.__name__, kind.__name__)


def argument_type(kind: Any, required: bool = False) -> str:
    """Return the type of an argument: an array is any sequence, and words are checked. One that is
    required is not left out."""
    return _written(kind, answer=False, left_out=not required)


def answer_type(kind: Any, required: bool = False) -> str:
    """Return the type of a field of a model: an array is a tuple, and a word is a string, so that
    a word of a later server is no error. One that is required is not left out."""
    return _written(kind, answer=True, left_out=not required)


def _written(kind: Any, *, answer: bool, left_out: bool = True) -> str:
    """Return a type as text; without `left_out` it has no value for a field that is left out."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in WORDS and not answer:
        return WORDS[kind]
    if kind == publish.Moment:
        return "datetime"
    if origin is Annotated:
        return _written(arguments[0], answer=answer, left_out=left_out)
    if origin is Literal:
        words = ", ".join(map(quoted, arguments))
        return type(arguments[0]).__name__ if answer else f"Literal[{words}]"
    given = without_int(each for each in arguments if each not in NOTHING)
    parts = [_written(each, answer=answer) for each in given]
    if origin in (list, tuple, set):
        return f"tuple[{parts[0]}, ...]" if answer else f"Sequence[{parts[0]}]"
    if origin is dict:
        return f"{'dict' if answer else 'Mapping'}[{', '.join(parts)}]"
    if origin in (Union, types.UnionType):
        missing = NoneType in arguments or (left_out and UnsetType in arguments)
        return "Any" if "Any" in parts else " | ".join([*dict.fromkeys(parts), *["None"] * missing])
    return _plain(kind)


def _plain(kind: Any) -> str:
    """Return the name of a type that has no arguments."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return model_name(kind)
    names: dict[Any, str] = {Any: "Any", datetime: "datetime"}
    return names.get(kind) or str(kind.__name__)


def may_be_missing(text: str) -> bool:
    """Return whether a type has None."""
    return text == "Any" or text.endswith("| None")


def quoted(word: object) -> str:
    return f'"{word}"' if isinstance(word, str) else repr(word)
