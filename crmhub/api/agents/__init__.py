"""The tools by which agents work in an account, over the Model Context Protocol (`/mcp`)."""
