"""Alerts to operators: which are active, and how they are sent."""
