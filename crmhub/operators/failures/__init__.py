"""Why actions fail, and what fixes a whole group of them."""
