"""The HTTP API: routes and schemas. No package below it knows wire names (createdAt)."""
