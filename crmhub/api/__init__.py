"""What the world calls: routes and schemas. Wire names (createdAt) live here and nowhere below."""
