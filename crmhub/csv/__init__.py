"""Import of records from CSV files, and export to CSV files."""
