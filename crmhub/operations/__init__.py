"""What operators do: accounts, their CRM, their actions, backups, erasure."""
