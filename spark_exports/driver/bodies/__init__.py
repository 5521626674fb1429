"""From bodies to columns: what a JSON or Avro body is, which columns a table needs for it, and
which of its values a column holds.

Nothing here knows Spark or Iceberg. Bodies are read strictly: what is in a column is what the body
says, to the digit. Whatever a column cannot hold exactly leaves it null, and the body as it came is
kept beside it (`rescued`).
"""
