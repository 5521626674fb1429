"""Where what was applied lies on this node's disk: indexes, settled segments, scrubbing.

All of it is local and can be rebuilt: no byte here is agreed on by the group.
"""
