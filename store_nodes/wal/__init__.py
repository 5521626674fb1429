"""One write-ahead log per node, shared by every group: what is durable, and what is still whole.

    disk.py          the operating system's file calls, behind a seam
    frame.py         one record on disk; position.py says where its payload lies
    footer.py        the index a sealed segment ends with
    segment.py       a file of frames: header, preallocation
    writer.py        the active segment, its seal, the spare
    recovery.py      what a start finds: clean, a torn tail, or damage
    opening.py       from a directory to a log that can be written to
    identity.py      whose log this is, and that only one process has it
    log.py           WriteAheadLog: write, sync, read
    group_commit.py  one flush for everything that queued during the last one

The first failed write, fsync or close is final: the process must end, and the next start trusts
only what it can read back.
"""
