"""The HTTP API: routes, and schemas of bodies, queries and answers.

Python code outside of this package uses names such as `created_at` where the JSON has `createdAt`.
"""
