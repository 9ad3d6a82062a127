"""The road to an account's CRM: its connection, its field map, and the hub's own records."""
