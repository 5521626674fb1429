"""Admission decides which requests are served under overload, before any of a request is done."""
