"""Writes the parts of the SDK that follow from the contract: models, calls, and resources.

The SDK is a distribution of its own and imports nothing of this package, so its modules are text.
"""
