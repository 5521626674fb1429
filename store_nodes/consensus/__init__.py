"""Multi-Paxos as a pure state machine: no sockets, files, clocks or randomness of its own."""
