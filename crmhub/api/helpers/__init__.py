"""The routes of the webhook helpers."""
