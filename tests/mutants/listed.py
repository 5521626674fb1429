"""Every mutant, by the part of the product that it breaks."""

from __future__ import annotations

from tests.mutants import metadata, publishing, store, subscribing

MUTANTS = (*metadata.MUTANTS, *subscribing.MUTANTS, *store.MUTANTS, *publishing.MUTANTS)
