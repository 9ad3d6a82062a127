"""The migrations of the database schema (Alembic); `crmhub db upgrade` runs the missing ones."""
