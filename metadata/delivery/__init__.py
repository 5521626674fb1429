"""Ack state, and which forwarder owns it."""
