"""Compare, merge and separate possible duplicates."""
