"""Find and erase all data of a person."""
