"""Lists and searches of records: filters, query plans, pages and their cursors."""
