"""Value types, an account's property definitions, and the validation of values."""
