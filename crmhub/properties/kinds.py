"""The four kinds of record, which differ only in the data defined here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record: its number in the database and its names on the wire.

    A record needs a value for at least one property of `one_of`. `pipeline` and `stage` name the
    properties that hold a record's pipeline and stage; both are empty for kinds without pipelines.
    """

    code: int
    name: str
    singular: str
    one_of: tuple[str, ...] = ()
    pipeline: str = ""
    stage: str = ""


CONTACTS = Kind(1, "contacts", "contact", one_of=("email", "phone", "firstname", "lastname"))
DEALS = Kind(2, "deals", "deal", pipeline="pipeline", stage="dealstage")
COMPANIES = Kind(3, "companies", "company")
TICKETS = Kind(4, "tickets", "ticket", pipeline="hs_pipeline", stage="hs_pipeline_stage")

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (CONTACTS, DEALS, COMPANIES, TICKETS)}
BY_CODE: Mapping[int, Kind] = {kind.code: kind for kind in KINDS.values()}
