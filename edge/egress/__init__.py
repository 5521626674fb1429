"""The rules of outbound requests, and the one HTTP session that enforces them."""
