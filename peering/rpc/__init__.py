"""Connections between processes of the platform: frames, the handshake, dialling and listening.

Store nodes with their clients, and subscribe forwarders among themselves, speak over these. What
heads and bodies of frames mean is the protocols' own (`Wire`); here they are bytes.
"""
