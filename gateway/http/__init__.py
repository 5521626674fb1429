"""The edge: bytes to requests, requests to operations."""
