"""The admin API, /admin/v1: the operators' tasks for programs."""
