"""The four kinds of record, which differ only in the data of this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.translatable import translatable


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record; `code` is its number in the database.

    A record must have a value of one of `one_of`. `pipeline` and `stage` are the names of the
    properties for them, "" without pipelines.
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
# Pages translate these names where they show them; data holds them as they are.
_SHOWN = (
    *(translatable("contacts"), translatable("contact"), translatable("deals")),
    *(translatable("deal"), translatable("companies"), translatable("company")),
    *(translatable("tickets"), translatable("ticket")),
)
