"""Identity: which contact a lead is about, and the contact of each conversation."""
