"""Show the faults that the prose check finds.

`python -m tests.tidy.prose [FILE …]`: those of files, or without files of everything.
"""

from __future__ import annotations

import sys

from tests.tidy.prose.check import shown, sources


def main(files: list[str]) -> int:
    """Print the faults; return the exit code."""
    found = 0
    for source in sources():
        if not files or source.name.startswith(tuple(files)):
            faults = list(source.faults())
            found += len(faults)
            if faults:
                print(shown(source, faults))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
