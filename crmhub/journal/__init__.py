"""The durable queue: every action that a helper accepted, until the CRM has it."""
