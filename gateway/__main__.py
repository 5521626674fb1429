"""`python -m gateway`: the server's commands, without the client's; the supervisor's children.

It may be started as a file, from any directory, with `python -P`: the parts are found beside it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from gateway.command import main

    main()
