"""`python -m gateway`: the same as the `packetboat` command; how the supervisor starts children."""

from gateway.command import main

if __name__ == "__main__":
    main()
