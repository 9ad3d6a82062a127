"""The database: schema, tables, connections, transactions, and drivers."""
