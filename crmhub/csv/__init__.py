"""Import of records from CSV files, and export of records to CSV files."""
