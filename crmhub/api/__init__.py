"""The HTTP API: routes, and schemas of bodies, queries and answers.

The packages below it use other names than the JSON keys: `created_at` for `createdAt`.
"""
