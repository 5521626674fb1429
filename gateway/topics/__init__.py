"""Topics and their partitions: made, changed, moved, grown, removed."""
