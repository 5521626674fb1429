"""Subscriptions and what hangs on them: positions, snapshots, webhooks, dead letters."""
