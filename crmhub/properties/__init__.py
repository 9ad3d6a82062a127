"""Property definitions of records, the types of values, and the validation of values."""
