"""OIDC issuers of a tenant's own, whose tokens it trusts.

Several tenants may trust one issuer. The tenant of a token follows from the proof (`Trust`) that
each has given that tokens of that issuer for that audience are its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.counts import ISSUERS, NO_LIMITS, Defaults
from metadata.database import Database
from metadata.errors import MetadataError
from metadata.models import IssuerRow
from metadata.tenancy.named_rows import NamedRows
from metadata.types import ChangeKind
from openapi.access import Trust


class IssuerTaken(MetadataError):
    """The tenant trusts the issuer for that audience already, under another name."""

    code = "issuer_taken"

    def __init__(self) -> None:
        super().__init__("the issuer is trusted for that audience already")


@dataclass(frozen=True, slots=True)
class IssuerSpec:
    """The values that a caller chooses."""

    name: str
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    subject_claim: str = "sub"
    required_claims: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    trust: Trust = "unproved"


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer as one transaction saw it. `version` is its ETag.

    A token holds with this `issuer` (iss), this `audience` (among its aud), one of `algorithms` and
    each of `required_claims`; the subject is what `subject_claim` says.
    """

    tenant_id: bytes
    uid: bytes
    name: str
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    subject_claim: str
    required_claims: Mapping[str, str]
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime
    trust: Trust


class IssuerRepository(NamedRows[IssuerRow, Issuer]):
    """In a tenant names are unique, and so are issuers with an audience."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` as NamedRows does."""
        super().__init__(
            database,
            limits,
            row=IssuerRow,
            kind="issuer",
            change=ChangeKind.ISSUER,
            value=issuer,
            quota=ISSUERS,
        )

    async def by_issuer(self, issuer: str) -> tuple[Issuer, ...]:
        """Return the issuers of all tenants; a token's audiences, and the proofs of each,
        tell its tenant.
        """
        return await self.anywhere(IssuerRow.issuer == issuer)

    async def create(self, tenant_id: bytes, spec: IssuerSpec) -> Issuer:
        """Create an issuer. Conflict when the name is taken (`existing` has it); IssuerTaken."""
        return await self.create_row(tenant_id, spec.name, _columns(spec), _one_each)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        spec: IssuerSpec,
        *,
        if_version: int | None = None,
    ) -> Issuer:
        """Change an issuer. Raises NotFound; Conflict when `if_version` is another; IssuerTaken."""
        return await self.update_row(
            tenant_id, name, lambda _: _columns(spec), if_version=if_version, guard=_one_each
        )


@asynccontextmanager
async def _one_each(session: AsyncSession) -> AsyncIterator[None]:
    """Raise IssuerTaken for an issuer and audience under two names: nobody could say whom a token
    means.
    """
    try:
        yield
        await session.flush()
    except IntegrityError as error:
        raise IssuerTaken from error


async def follow_operator(
    session: AsyncSession, tenant_id: bytes, allowed: Sequence[str]
) -> list[IssuerRow]:
    """Make an operator's allowance hold from then on, and withdraw one that is allowed no more.

    The change of the tenant, in the same transaction, tells every process; the returned rows are to
    have its version.
    """
    followed = []
    rows = await session.scalars(select(IssuerRow).where(IssuerRow.tenant_id == tenant_id))
    for row in rows:
        is_allowed = allowance(row.issuer, row.audience) in allowed
        held = row.trust
        trust: Trust | None = None
        if is_allowed and held in ("unproved", "withdrawn"):
            trust = "operator"
        elif not is_allowed and held == "operator":
            trust = "withdrawn"
        if trust is not None:
            row.trust, row.updated_at = trust, func.now()
            followed.append(row)
    return followed


def allowance(issuer: str, audience: str) -> str:
    """Return an entry of `issuers_allowed`. An issuer has no `#`."""
    return f"{issuer}#{audience}"


def _columns(spec: IssuerSpec) -> Mapping[str, Any]:
    return {
        "issuer": spec.issuer,
        "audience": spec.audience,
        "algorithms": list(spec.algorithms),
        "subject_claim": spec.subject_claim,
        "required_claims": dict(spec.required_claims),
        "labels": dict(spec.labels),
        "trust": spec.trust,
    }


def issuer(row: IssuerRow) -> Issuer:
    return Issuer(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        issuer=row.issuer,
        audience=row.audience,
        algorithms=tuple(row.algorithms),
        subject_claim=row.subject_claim,
        required_claims=dict(row.required_claims),
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        trust=row.trust,
    )
