"""What the Spark that is installed can do: `make test-spark SPARK=…` runs tests with others."""

from __future__ import annotations

import pyspark

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
HAS_PUSH_DOWN = VERSION >= (4, 1)
"""It tells a data source written in Python of conditions."""
HAS_LIMITS = VERSION >= (4, 2)
"""And a stream of one how much a batch may have."""
