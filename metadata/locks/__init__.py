"""Named locks with leases and fences."""
