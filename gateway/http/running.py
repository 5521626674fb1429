"""Lets requests run, whichever way they are served: checks, charges and admits each, and notes its
end.

A request is refused by the first of these that does not let it in: its caller's permission, its
tenant's rate, its query, and the admission of this process. A new check belongs here.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from auth.principal import Principal
from edge.problem import Problem
from edge.quota import REQUESTS, REQUESTS_SERVED, Quotas, Usage, rate_limited
from gateway.admission.admission import ANONYMOUS
from gateway.admission.kinds import Kind
from gateway.admission.request_admission import RequestAdmission
from gateway.http.parameters import refuse_unknown
from gateway.http.router import Endpoint
from gateway.metrics import RequestMetrics
from gateway.middleware.access_log import AccessLog


class Call(NamedTuple):
    """The operation that a request asks for."""

    endpoint: Endpoint
    params: dict[str, str]
    query: bytes
    kind: Kind | None
    """The kind by which admission judges it; None if there is no admission."""
    size: int
    """The bytes that admission counts for its body."""


class RunningRequests:
    """The requests of a process that have begun and not ended."""

    def __init__(
        self,
        admission: RequestAdmission | None,
        quotas: Quotas,
        usage: Usage,
        metrics: RequestMetrics,
        access_log: AccessLog,
    ) -> None:
        """Begin without requests. An `admission` of None admits all of them; `quotas` are asked
        for, and `usage` told of, each request of a tenant.
        """
        self.admission = admission
        self.count = 0
        self._quotas = quotas
        self._usage = usage
        self._metrics = metrics
        self._access_log = access_log
        self._idle = asyncio.Event()

    def admit(self, call: Call, principal: Principal | None) -> Problem | None:
        """Return None if the call may run, else the refusal of admission, which sheds it.

        Raises the Problem of any other check that fails. A public operation has no principal.
        """
        tenant_id = ANONYMOUS
        if principal is not None:
            tenant_id, endpoint = principal.tenant_id, call.endpoint
            endpoint.check(principal.caller, call.params)
            over = self._quotas.take(tenant_id, REQUESTS, 1)
            if over is not None:
                raise rate_limited(over)
            self._usage.count(tenant_id, REQUESTS_SERVED, 1)
            if call.query and endpoint.query is not None:
                refuse_unknown(call.query, endpoint.query)
        if self.admission is None or call.kind is None:
            return None
        return self.admission.process.enter(tenant_id, call.kind, call.size)

    def end(
        self, method: str, path: str, template: str, status: int, started_s: float, name: bytes,
        *, shed: bool, admitted: Call | None, tenant_id: bytes,
    ) -> None:  # fmt: skip
        """Note the end of a request whose id is `name`: in the metrics, in admission if it was
        admitted, and in the access log unless it was shed.
        """
        self.count -= 1
        if not self.count:
            self._idle.set()
        seconds = time.perf_counter() - started_s
        if self.admission is not None and admitted is not None and admitted.kind is not None:
            took_s = seconds if 200 <= status < 300 else None
            self.admission.process.leave(tenant_id, admitted.kind, admitted.size, took_s)
        self._metrics.observe(method, template, status, seconds)
        if shed:
            return  # a line for each would be most of the work; admission says when it sheds
        self._access_log.note(method, path, status, seconds, name)

    async def until_idle(self) -> None:
        """Returns when no request is running."""
        while self.count:
            self._idle.clear()
            await self._idle.wait()
