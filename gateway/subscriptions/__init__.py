"""Subscriptions and what hangs on them: positions, snapshots, skip rules, webhooks' keys."""
