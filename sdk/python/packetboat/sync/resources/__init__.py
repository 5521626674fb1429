# Generated from aio/resources/__init__.py: `make generate`. Do not edit.
"""The areas of the API, one class each, over a sender; `sync/resources` is generated from these."""
