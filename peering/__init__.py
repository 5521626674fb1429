"""How processes of the platform know each other: shared secrets, and certificates with TLS."""
