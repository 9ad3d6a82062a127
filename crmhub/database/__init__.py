"""The database: its schema, its connections, and the one place that commits."""
