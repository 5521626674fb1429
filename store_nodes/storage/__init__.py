"""Where what was applied lies on this node's disk: indexes, compacted segments, scrubbing.

All of it is local and can be rebuilt: no byte here is agreed on by the group.
"""
