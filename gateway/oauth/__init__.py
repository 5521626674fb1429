"""The OAuth2 endpoints: tokens, introspection, revocation, and where others find our keys."""
