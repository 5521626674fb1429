"""Tenants and what belongs to them: credentials, roles, limits, usage and the audit."""
