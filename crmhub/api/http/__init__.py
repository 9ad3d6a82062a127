"""HTTP functions for all routes: requests, answers, errors, authentication, OpenAPI."""
