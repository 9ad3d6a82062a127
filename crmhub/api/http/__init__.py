"""What every route shares: reading requests, answers, errors, authentication, documentation."""
