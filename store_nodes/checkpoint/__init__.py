"""Local checkpoints: what lets a node start from the end of its log instead of its beginning."""
