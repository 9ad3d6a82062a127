"""Records from CSV files, and into them."""
