"""The answer to a batch: a receipt or an error for each of its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from packetboat.errors import PacketboatError, Problem, ServerError, error_of
from packetboat.models import Receipt

Result = Receipt | PacketboatError


class _Receipts(msgspec.Struct):
    results: list[Receipt]


class _Mixed(msgspec.Struct):
    results: list[msgspec.Raw]


class _Status(msgspec.Struct):
    status: int | None = None


_receipts = msgspec.json.Decoder(_Receipts)
_mixed = msgspec.json.Decoder(_Mixed)
_status = msgspec.json.Decoder(_Status)
_receipt = msgspec.json.Decoder(Receipt)
_problem = msgspec.json.Decoder(Problem)


def reader(count: int) -> Callable[[bytes], Sequence[Result]]:
    """Return a decoder for the answer to `count` messages.

    It decodes the usual answer, receipts only, in one pass.
    """

    def read(body: bytes) -> Sequence[Result]:
        results: Sequence[Result]
        try:
            results = _receipts.decode(body).results
        except msgspec.ValidationError:
            results = [_result(raw) for raw in _mixed.decode(body).results]
        if len(results) != count:
            raise ServerError(200, f"{len(results)} results for {count} messages")
        return results

    return read


def _result(raw: msgspec.Raw) -> Result:
    if _status.decode(raw).status is None:
        return _receipt.decode(raw)
    return error_of(_problem.decode(raw))
