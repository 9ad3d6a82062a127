"""Accounts: what they are, their keys and plans, and who is calling."""
