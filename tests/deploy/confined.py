"""`python -m tests.deploy.confined COMMAND …`: run a command without some of what units forbid: no
new privileges (NoNewPrivileges), no memory that is written and run (MemoryDenyWriteExecute)."""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_MDWE = 65
PR_MDWE_REFUSE_EXEC_GAIN = 1


def main(command: list[str], *, may_compile: bool) -> None:
    """Becomes the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Linux has had it since 6.3; where it is missing, the command runs without.
    if not may_compile and libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
        print("confined: this kernel has no PR_SET_MDWE", file=sys.stderr)
    os.umask(0o077)
    os.execvp(command[0], command)


if __name__ == "__main__":
    may_compile = sys.argv[1] == "--may-compile"
    main(sys.argv[2 if may_compile else 1 :], may_compile=may_compile)
