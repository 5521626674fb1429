"""Trusted OIDC issuers between the API and the rows."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from msgspec import UNSET

from edge.problem import FieldError, invalid
from gateway.names import label_errors
from gateway.tenancy.answers import name_errors_of
from metadata.tenancy.issuers import Issuer, IssuerSpec
from openapi import access

_CLAIM = re.compile(access.CLAIM)


def spec_of(body: access.IssuerBody, name: str) -> IssuerSpec:
    """Return the issuer that a body describes; raise a 422 Problem, or 409 for another name."""
    errors = name_errors_of(body.name, name) + label_errors(body.labels)
    errors += _url_errors(body.issuer) + _claim_errors(body.subject_claim, body.required_claims)
    audience = "" if body.audience is UNSET else body.audience
    if any(char < " " for char in audience):
        errors.append(FieldError("audience", "no control characters"))
    if errors:
        raise invalid("The body does not fit.", errors)
    return IssuerSpec(
        name,
        body.issuer,
        audience,
        tuple(dict.fromkeys(body.algorithms)),
        body.subject_claim,
        body.required_claims,
        body.labels,
    )


def _url_errors(url: str) -> list[FieldError]:
    """Check the form of a URL. The egress rules judge the host when the keys are read."""
    rule = "an https URL without user, query or fragment"
    try:
        parts = urlsplit(url)
        plain = bool(parts.hostname) and parts.username is None and not (parts.port or 1) < 1
    except ValueError:
        return [FieldError("issuer", rule)]
    fits = (
        plain and parts.scheme in ("https", "http") and not re.search(r"[?#@\s\x00-\x1f\x7f]", url)
    )
    return [] if fits else [FieldError("issuer", rule)]


def _claim_errors(subject_claim: str, required: dict[str, str]) -> list[FieldError]:
    rule = "1 to 128 letters, digits, '_', ':', '/', '.' and '-'"
    errors = [] if _CLAIM.fullmatch(subject_claim) else [FieldError("subject_claim", rule)]
    for claim, value in required.items():
        if not _CLAIM.fullmatch(claim):
            errors.append(FieldError("required_claims", f"the name {claim[:80]!r}: {rule}"))
        elif len(value) > access.MAX_CLAIM_CHARS or "\0" in value:
            detail = f"at most {access.MAX_CLAIM_CHARS} characters"
            errors.append(FieldError(f"required_claims.{claim}", detail))
    return errors


def view(issuer: Issuer) -> access.Issuer:
    """Return an issuer as the API shows it."""
    return access.Issuer(
        name=issuer.name,
        issuer=issuer.issuer,
        audience=issuer.audience,
        algorithms=list(issuer.algorithms),
        subject_claim=issuer.subject_claim,
        required_claims=dict(issuer.required_claims),
        labels=dict(issuer.labels),
        trust=issuer.trust,
        created_at=issuer.created_at,
        updated_at=issuer.updated_at,
    )
