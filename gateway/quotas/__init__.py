"""Limits and usage of tenants: limits over all processes, and metering."""
