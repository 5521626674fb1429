"""What every HTTP-facing part shares and no part owns: problems, ASGI helpers, message ids."""
