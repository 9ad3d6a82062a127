"""The routes of the public API."""
