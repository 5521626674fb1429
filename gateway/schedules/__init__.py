"""Schedules: what is published when."""
