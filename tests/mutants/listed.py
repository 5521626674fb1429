"""Every mutant, by the part of the product that it breaks."""

from __future__ import annotations

from tests.mutants import (
    bounds,
    connections,
    consensus,
    contract,
    delivering,
    log,
    machine,
    metadata,
    peering,
    publishing,
    repairing,
    roles,
    store,
    subscribing,
)

MUTANTS = (
    *metadata.MUTANTS,
    *subscribing.MUTANTS,
    *delivering.MUTANTS,
    *store.MUTANTS,
    *repairing.MUTANTS,
    *consensus.MUTANTS,
    *machine.MUTANTS,
    *log.MUTANTS,
    *publishing.MUTANTS,
    *roles.MUTANTS,
    *peering.MUTANTS,
    *bounds.MUTANTS,
    *connections.MUTANTS,
    *contract.MUTANTS,
)
