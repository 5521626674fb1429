"""A deterministic machine room: processes, threads, event loops, sockets, disks and clocks of which
one seed decides every move. The product's own classes run on it unchanged."""
