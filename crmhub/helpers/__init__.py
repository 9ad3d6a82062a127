"""The webhook helpers as use-cases over the CRM of an account, a file for each."""
