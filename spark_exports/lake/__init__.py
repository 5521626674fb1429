"""Lake tables: files, commits and their upkeep, with PyIceberg and pyarrow alone (no Spark)."""
