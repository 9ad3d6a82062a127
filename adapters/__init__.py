"""The adapters that are part of the hub: one module or package for each CRM."""
