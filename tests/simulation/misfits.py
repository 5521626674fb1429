"""Tells a mutation that breaks a promise from one that the product has outgrown.

A mutation replaces a function of the product. When that function changes, the mutation may hand the
product a value that it cannot use, and every seed fails by an error of Python. Such a failure does
not show that the simulation watches the promise.
"""

from __future__ import annotations

import re

_ERRORS = re.compile(r"\b(AttributeError|ImportError|NameError|TypeError|UnboundLocalError)\b")


def misfit(failure: str | None) -> str | None:
    """Return the name of the error of Python by which a seed failed; None if it failed otherwise,
    or did not fail.
    """
    found = _ERRORS.search(failure or "")
    return found[0] if found else None
