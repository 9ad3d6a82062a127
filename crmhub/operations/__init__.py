"""The operators' tasks: accounts, their CRM, their actions, backups, erasure."""
