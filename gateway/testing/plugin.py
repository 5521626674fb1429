"""The plugin of environments that were installed before it moved into the SDK."""

from __future__ import annotations

from packetboat.testing.plugin import *  # noqa: F403
