"""A copy of the whole store in files, taken from running nodes, and nodes made of such a copy.

taking.py     from the groups' leaders: their machines, and every live batch that is not had yet
packs.py      batches in files, with an index each
held.py       which offsets and stage numbers are had
restoring.py  the data directory of a node of a *new* cluster
"""
