"""Properties: the types of values, the definitions an account has, and what a value must be."""
