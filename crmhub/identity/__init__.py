"""Which contact a lead means, and what the hub remembers of a conversation."""
