"""The options of the fake Zoho CRM."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.fakes import fake


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake Zoho CRM.

    `limit` are the credits, and `at_once` the calls at the same time; None for no limit. Of an
    account: `unique_email` (no email twice, also not of a lead), `mark` (the name of a custom field
    for marks, "" for none), `mark_is_unique`, `encrypted_email`, `has_cases`, `demanded` (fields
    that layouts require of a new record). Where Zoho's behaviour is unknown: `exact_case` (COQL
    distinguishes upper and lower case), `absent_is_204` (a missing record is an empty 204 instead
    of a 400), `drops_null` (COQL leaves out fields without a value).
    """

    limit: str = "50000/86400s"
    at_once: int | None = 10
    expires_in: float = 3_600
    unique_email: bool = False
    encrypted_email: bool = False
    mark: str = ""
    mark_is_unique: bool = True
    has_cases: bool = True
    demanded: frozenset[str] = frozenset()
    exact_case: bool = False
    absent_is_204: bool = True
    drops_null: bool = True
