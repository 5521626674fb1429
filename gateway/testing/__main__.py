"""A process of a test server, as `process.py` says; started as a file, from any directory, with
`python -P`: the parts are found beside it."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from gateway.testing.process import main

    sys.exit(main(*sys.argv[1:]))
