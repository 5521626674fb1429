"""Handing out less: because this machine has too much to do, or because a consumer says so."""
