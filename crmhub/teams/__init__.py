"""Teams of owners of an account's CRM, and the choice of the one who gets a contact."""
