# Generated from aio/operations/__init__.py: `make generate`. Do not edit.
"""Operations of areas whose other methods are written by hand, in `resources`."""
