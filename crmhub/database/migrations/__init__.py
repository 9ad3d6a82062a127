"""The schema, step by step (Alembic); `crmhub db upgrade` runs what is missing."""
