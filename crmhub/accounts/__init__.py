"""Accounts, their keys and plans, and the identification of callers."""
