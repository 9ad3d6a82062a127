"""What chatbots ask for, as use-cases over the CRM of an account."""
