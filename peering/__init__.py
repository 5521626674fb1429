"""Identity of the platform's processes: shared secrets, and certificates for TLS."""
