"""Schemas of bodies: definitions, checks and compatibility. Pure; knows no topics."""
