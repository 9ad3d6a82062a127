"""Back the database up, restore it, and change its encryption key."""
