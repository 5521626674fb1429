"""Publishing through a buffer: messages gather into batches while earlier batches are out."""
