"""Code that all HTTP-facing parts share: problems, ASGI helpers, message ids, quotas and bounds."""
