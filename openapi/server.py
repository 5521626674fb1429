"""Health and the description of the API."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from openapi.common import UNAVAILABLE, Problem
from openapi.contract import Answer, Operation, Refusal, Success, ok, table


class Status(Answer):
    """The answer that a process is alive."""

    status: str
    """The word `ok`."""


class Ready(Answer):
    """The answer that a process can be sent requests."""

    status: str
    """The word `ready`."""
    warnings: dict[str, str] | UnsetType = UNSET
    """By what it is about, such as `disk`: publishes are answered 507 while a store node has too
    little room. Not there where there is none."""


NO_SUCH_PART = Refusal("NoSuchPart", 404, "The page has no such part.", Problem)

OPERATIONS = table(
    "server",
    Operation(
        id="root",
        route="GET /",
        needs="public",
        summary="To the documentation",
        answers=(Success(302, "See /docs."),),
    ),
    Operation(
        id="healthz",
        route="GET /healthz",
        needs="public",
        summary="Is the process alive",
        answers=(ok(Status, "It is."),),
    ),
    Operation(
        id="readyz",
        route="GET /readyz",
        needs="public",
        summary="Should it be sent requests",
        answers=(ok(Ready, "It should. `warnings` say what needs people all the same."),),
        problems=(UNAVAILABLE,),
    ),
    Operation(
        id="openapiYaml",
        route="GET /openapi.yaml",
        needs="public",
        summary="This description",
        answers=(ok(object, "The page.", media="application/yaml"),),
    ),
    Operation(
        id="openapiJson",
        route="GET /openapi.json",
        needs="public",
        summary="This description as JSON",
        answers=(ok(object, "The page."),),
    ),
    Operation(
        id="docs",
        route="GET /docs",
        needs="public",
        summary="This description for people",
        answers=(ok(str, "The page.", media="text/html"),),
    ),
    Operation(
        id="docsAsset",
        route="GET /docs/{asset}",
        needs="public",
        summary="A file that the page for people loads",
        answers=(
            Success(
                200,
                "A script or a style sheet.",
                str,
                media=(
                    "text/javascript",
                    "text/css",
                ),
            ),
        ),
        problems=(NO_SUCH_PART,),
    ),
)
