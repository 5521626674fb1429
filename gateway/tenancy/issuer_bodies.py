"""A trusted OIDC issuer in JSON."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import same_name
from metadata.tenancy.issuers import Issuer, IssuerSpec

MAX_URL_CHARS = 512
MAX_CLAIMS = 16
MAX_CLAIM_CHARS = 255
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Of asymmetric keys only: whoever can check a token of another kind can make one."""
Audience = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CLAIM_CHARS)]
Algorithms = Annotated[list[Algorithm], msgspec.Meta(min_length=1, max_length=10)]
_CLAIM = re.compile(r"[A-Za-z0-9_:/.-]{1,128}")


class IssuerBody(msgspec.Struct, forbid_unknown_fields=True):
    """What makes an issuer trusted, or replaces what is trusted; the path of a PUT names it."""

    issuer: str
    audience: Audience | UnsetType = UNSET
    """The tenant's own, unless given."""
    algorithms: Algorithms = msgspec.field(default_factory=lambda: ["RS256"])
    subject_claim: str = "sub"
    required_claims: dict[str, str] = {}
    name: str | UnsetType = UNSET
    labels: dict[str, str] = {}

    def spec(self, path_name: str | None = None) -> IssuerSpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + label_errors(self.labels)
        errors += _url_errors(self.issuer) + _claim_errors(self.subject_claim, self.required_claims)
        audience = "" if self.audience is UNSET else self.audience
        if any(char < " " for char in audience):
            errors.append(FieldError("audience", "no control characters"))
        if errors:
            raise invalid("The body does not fit.", errors)
        return IssuerSpec(
            name,
            self.issuer,
            audience,
            tuple(dict.fromkeys(self.algorithms)),
            self.subject_claim,
            self.required_claims,
            self.labels,
        )


def _url_errors(url: str) -> list[FieldError]:
    """Where its keys are read from is judged when they are: see the egress rules."""
    rule = f"an https URL of at most {MAX_URL_CHARS} characters, without user, query or fragment"
    try:
        parts = urlsplit(url)
        plain = bool(parts.hostname) and parts.username is None and not (parts.port or 1) < 1
    except ValueError:
        return [FieldError("issuer", rule)]
    fits = (
        plain
        and parts.scheme in ("https", "http")
        and len(url) <= MAX_URL_CHARS
        and not re.search(r"[?#@\s\x00-\x1f\x7f]", url)
    )
    return [] if fits else [FieldError("issuer", rule)]


def _claim_errors(subject_claim: str, required: dict[str, str]) -> list[FieldError]:
    rule = "1 to 128 letters, digits, '_', ':', '/', '.' and '-'"
    errors = [] if _CLAIM.fullmatch(subject_claim) else [FieldError("subject_claim", rule)]
    if len(required) > MAX_CLAIMS:
        errors.append(FieldError("required_claims", f"at most {MAX_CLAIMS} claims"))
        return errors
    for claim, value in required.items():
        if not _CLAIM.fullmatch(claim):
            errors.append(FieldError("required_claims", f"the name {claim[:80]!r}: {rule}"))
        elif len(value) > MAX_CLAIM_CHARS or "\0" in value:
            detail = f"at most {MAX_CLAIM_CHARS} characters"
            errors.append(FieldError(f"required_claims.{claim}", detail))
    return errors


def view(issuer: Issuer) -> dict[str, object]:
    return {
        "name": issuer.name,
        "issuer": issuer.issuer,
        "audience": issuer.audience,
        "algorithms": issuer.algorithms,
        "subject_claim": issuer.subject_claim,
        "required_claims": issuer.required_claims,
        "labels": issuer.labels,
        "trust": issuer.trust.value,
        "created_at": issuer.created_at,
        "updated_at": issuer.updated_at,
    }
