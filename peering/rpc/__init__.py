"""Connections between processes of the platform: frames, the handshake, dialling and listening.

Store nodes and their clients use these connections, and so do subscribe forwarders among
themselves. Each protocol gives the heads and bodies of frames their meaning (`Wire`); this package
sees bytes.
"""
