"""What this installation may ask of the world outside: one guard before every outbound request."""
