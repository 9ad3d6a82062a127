"""The admin API, /admin/v1: account settings and other operators' tasks, for programs."""
