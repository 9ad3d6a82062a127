"""The HTTP API: routes, and schemas of bodies, queries and answers.

Only this package uses the names of JSON keys, such as `createdAt`.
"""
