# generated from aio/resources/__init__.py by generate_sync.py; do not edit
"""The areas of the API, one class each, over a sender; `sync/resources` is generated from these."""
