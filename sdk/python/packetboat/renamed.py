"""Names that have changed: the old ones work for one more release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return a `__getattr__` for the module.

    `names` maps each old name to the class that replaces it.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        now = names[name]
        text = f"{module}.{name} is called {now.__name__} since 0.3.0; the old name goes in 0.4.0"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return now

    return find
