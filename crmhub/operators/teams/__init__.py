"""Operators' work with teams."""
