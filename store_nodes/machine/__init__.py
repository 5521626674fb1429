"""The replicated state of one group: pure, and equal wherever the same log was applied."""
