"""The admin API, /admin/v1, with which programs do the work of operators."""
