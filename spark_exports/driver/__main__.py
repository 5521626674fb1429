"""`python -m spark_exports.driver`: one run, ordered over stdin and told over stdout."""

from __future__ import annotations

import logging
import os
import sys

from spark_exports.driver.drive import drive
from spark_exports.driver.lines import of_process
from spark_exports.order import Done


def main() -> None:
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
    main()
