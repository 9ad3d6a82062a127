"""Open accounts, change them, and declare them in a file."""
