"""The abilities of the installed Spark: `make test-spark SPARK=…` runs tests with other
versions.
"""

from __future__ import annotations

import pyspark

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
HAS_PUSH_DOWN = VERSION >= (4, 1)
"""Whether it passes conditions to a data source written in Python."""
HAS_LIMITS = VERSION >= (4, 2)
"""Whether it also tells a stream of such a source the size of a batch."""
