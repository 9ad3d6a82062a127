"""Shared by all routes: reading requests, answers, errors, authentication, documentation."""
