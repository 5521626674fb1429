"""`python -m packetboat_server`: the commands of the server alone, without those of the client."""

from packetboat_server.commands import app

if __name__ == "__main__":
    app(prog_name="python -m packetboat_server")
