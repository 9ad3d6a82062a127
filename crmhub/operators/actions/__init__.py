"""Find actions, correct them, retry them and discard them."""
