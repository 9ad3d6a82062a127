"""The HTTP routes of the webhook helpers, which chatbot builders call."""
