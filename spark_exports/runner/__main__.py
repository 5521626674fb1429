"""`python -m spark_exports.runner`: the same as `packetboat export-runner`.

It may be started as a file, from any directory, with `python -P`: the parts are found beside it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from spark_exports.runner.command import main

    main()
