"""One running node: it starts its groups, answers clients, installs and repairs, and is measured.

`store_nodes/main.py` is its process. The other rooms of the store know nothing of this one, except
`backup/`, which copies queues and writes data directories as a node does.
"""
