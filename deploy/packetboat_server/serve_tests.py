"""`python -m packetboat_server.serve_tests NODES`: the server of the pytest fixture."""

import sys

from packetboat_server import enter

if __name__ == "__main__":
    enter()
    from gateway.testing.serving import main

    main(int(sys.argv[1]))
