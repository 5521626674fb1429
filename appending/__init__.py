"""The one way to put messages into the log, for all who do.

`lane.py` is the line of messages for one queue, and says what an append of them may hold.
`writer.py` is for callers that wait for the answer (the outbox, staging, copies of delayed
messages): over lanes, and on to the successors of sealed queues as the log names them. Publishing
has the lanes of a whole topic, and moves them by the catalog (`publish_forwarder/moves.py`): what
waits for one queue must not pass what waits for another.
"""
