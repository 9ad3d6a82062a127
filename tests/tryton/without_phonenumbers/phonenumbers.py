"""Stands before the library `phonenumbers` on the path of a Tryton that shall not have it."""

raise ImportError("this Tryton has no phonenumbers")
