"""Lists and searches: filters, the plan that finds the records, pages and their cursor."""
