"""Topics: partitions, placements, schemas, schedules, and what may be trimmed."""
