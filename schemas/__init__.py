"""Schemas of bodies: definitions, checks and compatibility.

Only `message_check.py` knows topics and messages; the rest is pure.
"""
