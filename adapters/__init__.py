"""The adapters that ship with the hub: one file for each CRM."""
