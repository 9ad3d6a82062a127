"""The adapters that ship with the hub: a module or a package for each CRM."""
