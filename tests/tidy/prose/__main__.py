"""Show and mend what the prose check finds.

`python -m tests.tidy.prose [--write | --take] [FILE …]`: with files, print their faults, also of
files on the list. `--write` removes from the list all that passes or was edited, and follows prose
that only moved. `--take` takes the list anew; use it only after a change of the rules.
"""

from __future__ import annotations

import sys

from tests.tidy.prose.check import Ledger, shown, sources, taken


def main(arguments: list[str]) -> int:
    """Carry out one command; return the exit code."""
    files = [one for one in arguments if not one.startswith("--")]
    ledger = Ledger.read()
    if "--take" in arguments or "--write" in arguments:
        fresh = taken(sources()) if "--take" in arguments else ledger.shrunk(sources())
        fresh.write()
        print(f"{len(ledger.entries)} sources were on the list, {len(fresh.entries)} are now")
        return 0
    faulty = (
        ((one, list(one.faults())) for one in sources() if one.name.startswith(tuple(files)))
        if files
        else ledger.judged(sources())
    )
    count = 0
    for source, faults in faulty:
        count += len(faults)
        if faults:
            print(shown(source, faults))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
