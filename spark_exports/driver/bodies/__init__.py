"""Columns of bodies: reading JSON and Avro bodies, choosing columns for them, and filling these.

Nothing here knows Spark or Iceberg. Bodies are read strictly: a column has the value of the body,
to the digit. If a column cannot hold a value exactly, it is null, and the original body is kept
beside it (`rescued`).
"""
