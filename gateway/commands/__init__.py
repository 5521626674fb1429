"""What operators type, and what that does."""
