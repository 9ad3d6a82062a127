"""Event subscriptions and their deliveries."""
