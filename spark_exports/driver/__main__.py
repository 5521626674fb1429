"""`python -m spark_exports.driver`: one run, ordered over stdin and told over stdout.

It may be started as a file, from any directory, with `python -P`: the parts are found beside it.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path


def main() -> None:
    from spark_exports.driver.drive import drive
    from spark_exports.driver.lines import of_process
    from spark_exports.order import Done

    lines = of_process()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    for noisy in ("py4j", "pyiceberg"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    answer = drive(lines)
    sys.stderr.flush()
    # All is said. The JVM ends with the end of its input, and whatever it still does is of no use.
    os._exit(0 if isinstance(answer, Done) else 1)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
