"""Accounts with their keys, plans and settings, and the identification of callers."""
