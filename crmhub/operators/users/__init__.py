"""Invite users of the console, sign them in, and issue tokens of the admin API."""
