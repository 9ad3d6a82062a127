"""The admin API, /admin/v1: what operators do by program instead of by command."""
