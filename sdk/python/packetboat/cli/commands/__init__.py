"""The commands, one noun a module; each is imported when it is used."""
