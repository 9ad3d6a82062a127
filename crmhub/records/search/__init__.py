"""Lists and searches of records: filters, query plans, pages and the cursors of pages."""
