"""Users of the console: their roles, passwords, second factors and sessions."""
