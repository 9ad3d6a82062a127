"""A real Tryton as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from adapters.tryton import TrytonAdapter
from crmhub.adapter import Kind, Linked, Written
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import HALVES, join, split
from tests.tryton.server import PASSWORD, PROJECT, TASKS, USER, Tryton

SETTINGS = {"base_url": "{url}", "database": "", "user": USER, "projects": PROJECT, "tasks": TASKS}
SECRETS = {"password": PASSWORD}
# What the adapter writes below the comment of a deal or ticket.
_MARK = re.compile(r"(?:\n\n)?crmhub: \S+\Z")
_DEALS = """
    select id::text, description, trim_scale(amount)::text, state, employee::text, comment,
    end_date::text
    from sale_opportunity where %(party)s::int is null or party = %(party)s
"""
_TICKETS = """
    select id::text, name, comment, parent::text, status::text
    from project_work where type = 'task' and (%(party)s::int is null or party = %(party)s)
    and parent <> %(tasks)s
"""
_NAMES: Mapping[Linked, tuple[str, ...]] = {
    "deals": ("dealname", "amount", "dealstage", "hubspot_owner_id", "comment", "closedate"),
    "tickets": ("subject", "comment", "hs_pipeline", "hs_pipeline_stage"),
}


class TrytonCrm:
    """Reads and changes a Tryton behind the adapter's back: by SQL, and as its administrator."""

    def __init__(self, tryton: Tryton) -> None:
        self.tryton = tryton
        self.url = tryton.url
        self.rpc = tryton.rpc()
        self.sql = tryton.sql()
        # Parties that are no contacts: the company and its employee.
        [(self._before, self._tasks)] = self.sql.execute(
            "select max(party), (select id from project_work where name = %s)"
            " from company_employee",
            (TASKS,),
        ).fetchall()

    def empty(self) -> None:
        """Remove everything that a test may have made."""
        for statement in (
            "delete from sale_opportunity",
            "delete from sale_opportunity__history",
            "delete from project_work where type = 'task'",
            f"delete from party_party where id > {self._before}",
        ):
            self.sql.execute(statement)

    def add_contact(self, properties: Mapping[str, str]) -> str:
        values = {name: properties[name] for name in ("email", "phone") if properties.get(name)}
        name = join(*(properties.get(half, "") for half in HALVES))
        return str(self.rpc.call("party.party", "create", [{**values, "name": name}])[0])

    def contacts(self) -> dict[str, dict[str, str]]:
        parties = self.sql.execute(
            "select id, name, code from party_party where active and id > %s order by id",
            (self._before,),
        ).fetchall()
        found = {
            id: {**dict(zip(HALVES, split(name or ""), strict=True)), "name": name, "code": code}
            for id, name, code in parties
        }
        mechanisms = self.sql.execute(
            "select party, type, value_compact from party_contact_mechanism where active"
            " order by party, sequence nulls first, id"
        ).fetchall()
        for party, type_of, value in mechanisms:
            if party in found:
                found[party].setdefault(type_of, value)
        return {str(id): properties for id, properties in found.items()}

    def delete_contact(self, contact_id: str) -> None:
        self.rpc.call("party.party", "delete", [int(contact_id)])

    def merge_contacts(self, gone_id: str, kept_id: str) -> None:
        # What Tryton's wizard writes, which asks whether two names are one person.
        replaced = "active = false, replaced_by = %s, write_date = now() at time zone 'UTC'"
        self.sql.execute(f"update party_party set {replaced} where id = %s", (kept_id, gone_id))

    def notes(self, kind: Written, record_id: str) -> dict[str, str]:
        models = {"contacts": "party.party", "deals": "sale.opportunity", "tickets": "project.work"}
        rows = self.sql.execute(
            "select id::text, message from ir_note where resource = %s",
            (f"{models[kind]},{record_id}",),
        ).fetchall()
        return {id: _MARK.sub("", message) for id, message in rows}

    def tasks(self, contact_id: str) -> dict[str, dict[str, str]]:
        rows = self.sql.execute(
            "select id::text, name, comment from project_work where parent = %s and party = %s",
            (self._tasks, contact_id),
        ).fetchall()
        return {id: {"subject": name, "notes": _MARK.sub("", note)} for id, name, note in rows}

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        return self._records(kind, int(contact_id))

    def count(self, kind: Kind) -> int:
        return len(self._records("tickets" if kind == "tickets" else "deals", None))

    def _records(self, kind: Linked, party: int | None) -> dict[str, dict[str, str]]:
        query = _DEALS if kind == "deals" else _TICKETS
        rows = self.sql.execute(query, {"party": party, "tasks": self._tasks}).fetchall()
        return {id: _shown(kind, values) for id, *values in rows}


def _shown(kind: Linked, values: list[str | None]) -> dict[str, str]:
    held = {name: value or "" for name, value in zip(_NAMES[kind], values, strict=True)}
    if kind == "deals":
        return {**held, "pipeline": "default"}
    return {**held, "content": _MARK.sub("", held["comment"])}


def connected(crm: TrytonCrm, **settings: str) -> Connection:
    """Return a connection of the adapter to this Tryton."""
    own = {**SETTINGS, "base_url": crm.url, "database": crm.tryton.database}
    return Connection(TrytonAdapter, own | settings, SECRETS)
