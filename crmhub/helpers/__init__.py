"""The helpers that bots call as webhooks: they read and write in an account's CRM."""
