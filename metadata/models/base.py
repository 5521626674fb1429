"""The base of all models."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import BigInteger, DateTime, Dialect, Uuid, func
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeDecorator


class Uid(TypeDecorator[bytes]):
    """16 bytes here, `uuid` there."""

    impl = Uuid(as_uuid=True)
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> uuid.UUID | None:
        return None if value is None else uuid.UUID(bytes=value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        return None if value is None else value.bytes


class Base(DeclarativeBase):
    """Declarative base; the schema itself is made by the migrations alone."""


Id = Annotated[bytes, mapped_column(Uid)]
KeyId = Annotated[bytes, mapped_column(Uid, primary_key=True)]
Big = Annotated[int, mapped_column(BigInteger)]
Time = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]
