"""Connect an account to its CRM, switch it to another one, and map its fields."""
