"""The durable queue of the actions that helpers accepted and that the CRM may not have yet."""
