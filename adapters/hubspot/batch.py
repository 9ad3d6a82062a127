"""Leads upserted with one read, one update and one create for all that need no closer look.

An upsert by email would reset what is not sent (HubSpot: not partial), and a batch without trace
ids is all or nothing, so each input carries one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.answers import objects_in, text_of
from adapters.hubspot.api import Api
from adapters.hubspot.failures import item_failure
from adapters.hubspot.finding import PHONES, Finding, has_number
from adapters.hubspot.values import PLAIN
from adapters.hubspot.writing import Writing
from crmhub.adapter import (
    AdapterError,
    Conflict,
    Contact,
    Lead,
    Match,
    NotFound,
    Outcome,
    Rejected,
    Saved,
    Uncertain,
    decide,
)
from crmhub.adapter.http import Answer

_TRACE = "objectWriteTraceId"


class Batch:
    """Leads upserted together; those that need a closer look follow one by one, in their order.

    `alone` upserts one lead.
    """

    def __init__(
        self,
        api: Api,
        finding: Finding,
        writing: Writing,
        leads: Sequence[Lead],
        *,
        alone: Callable[[Lead], Saved],
    ) -> None:
        self._api = api
        self._finding = finding
        self._writing = writing
        self._leads = leads
        self._upsert = alone
        self._outcomes: dict[int, Saved | AdapterError] = {}

    def run(self) -> list[Saved | AdapterError]:
        """Return what became of each lead, in the order of the leads."""
        first = self._first_of_each_person()
        try:
            self._write(first)
        # One refusal for all says nothing of each: what has no outcome yet is tried by itself.
        except (Conflict, NotFound, Rejected):
            pass
        except AdapterError as exc:
            for index in first:
                self._outcomes.setdefault(index, exc)
        for index, lead in enumerate(self._leads):
            if index not in self._outcomes:
                self._outcomes[index] = self._alone(lead)
        return [self._outcomes[index] for index in range(len(self._leads))]

    def _alone(self, lead: Lead) -> Saved | AdapterError:
        try:
            return self._upsert(lead)
        except AdapterError as exc:
            return exc

    def _first_of_each_person(self) -> list[int]:
        """Return the leads that can go together: each with an email, and no value shared."""
        chosen, met = [], set[str]()
        for index, lead in enumerate(self._leads):
            known = {value for value in (lead.email, lead.phone, lead.contact_id) if value}
            if lead.email and not known & met and not lead.tried_ms:
                chosen.append(index)
            met |= known
        return chosen

    def _write(self, indexes: Sequence[int]) -> None:
        updates: dict[int, dict[str, Any]] = {}
        creates: dict[int, dict[str, Any]] = {}
        matches = self._matches(indexes)
        for index, match in matches.items():
            found, fit = match.contact, dict(match.properties)
            if found is None:
                mark = self._writing.marked("contacts", self._leads[index].mark)
                creates[index] = {"properties": fit | mark, "associations": []}
                continue
            changed = {n: v for n, v in fit.items() if found.properties.get(n) != v}
            if changed:
                updates[index] = {"id": found.id, "properties": changed}
            else:
                self._outcomes[index] = Saved(found.id, "unchanged", found.url)
        self._send("update", updates, "updated")
        self._send("create", creates, "created")
        for index, match in matches.items():
            saved = self._outcomes.get(index)
            if isinstance(saved, Saved):
                self._outcomes[index] = replace(saved, refused=match.refused + saved.refused)

    def _matches(self, indexes: Sequence[int]) -> dict[int, Match]:
        """Return what is to be written for each lead; those to be refused have their outcome."""
        leads = {index: self._leads[index] for index in indexes}
        names = {name for lead in leads.values() for name in lead.properties}
        wanted = sorted({*names, "email", *PHONES})
        emails = [lead.email for lead in leads.values()]
        # One that is found by a secondary address is left to the create, which names it.
        found = {
            one.properties.get("email", "").lower(): one
            for one in self._finding.contacts(emails, wanted, by="email")
        }
        near = {i: one for i, one in leads.items() if _needs_no_look(one, found.get(one.email))}
        phones = {lead.phone for lead in near.values() if _phone_is_new(lead, found)}
        holders = self._finding.by_phone(sorted(phones), wanted)
        matches: dict[int, Match] = {}
        taken: set[str] = set()
        for index, lead in near.items():
            try:
                match = decide(
                    lead, by_email=found.get(lead.email), by_phone=holders.get(lead.phone)
                )
                match = self._writing.settled(lead, match)
            except Rejected as exc:
                self._outcomes[index] = exc
                continue
            contact_id = match.contact.id if match.contact else ""
            if contact_id not in taken:
                matches[index] = match
            taken |= {contact_id} - {""}
        return matches

    def _send(self, what: str, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        """Write the items in one call and note the outcome of each."""
        if not items:
            return
        inputs = [item | {_TRACE: str(index)} for index, item in items.items()]
        try:
            answer = self._writing.together(what, inputs)
            self._note(answer, items, outcome)
        except (Conflict, NotFound, Rejected):
            return
        except AdapterError as exc:
            for index in items:
                self._outcomes.setdefault(index, exc)

    def _note(self, answer: Answer, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        written = answer.items()
        for record in written:
            index = _whose(record, items)
            if index is not None:
                saved = self._api.saved("contacts", answer, record, outcome)
                self._outcomes[index] = saved
        for failed in objects_in(answer.object().get("errors")):
            # Half of a good answer, but told to people like any failure.
            clean = json.loads(self._api.mask(json.dumps(failed)))
            error = item_failure(answer, clean)
            for index in _traced(failed) & items.keys():
                if not _solved_alone(error, items[index]["properties"]):
                    self._outcomes[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                self._outcomes.setdefault(index, error)


def _needs_no_look(lead: Lead, found: Contact | None) -> bool:
    """Return whether email and search are enough to tell where a lead belongs."""
    if found is None:
        return not (lead.contact_id or lead.email_id or lead.phone_id)
    return lead.phone_id in ("", found.id) or has_number(found.properties, lead.phone)


def _phone_is_new(lead: Lead, found: Mapping[str, Contact]) -> bool:
    known = found.get(lead.email)
    return bool(lead.phone) and (known is None or known.properties.get("phone") != lead.phone)


def _whose(record: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return which item this is the result of, also where its trace id is not sent back."""
    values = record.get("properties")
    email = text_of(values.get("email")).lower() if isinstance(values, dict) else ""
    for index, item in items.items():
        if _TRACE in record:
            same = record[_TRACE] == str(index)
        elif "id" in item:
            same = item["id"] == record.get("id")
        else:
            same = item["properties"].get("email") == email
        if same:
            return index
    return None


def _solved_alone(error: AdapterError, sent: Mapping[str, str]) -> bool:
    """Return whether a lead that fails like this may be stored when it is upserted by itself.

    A clash tells whose the email is, and what is refused may fit what was defined since.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent.keys() - PLAIN))
    return isinstance(error, Conflict | NotFound)


def _traced(failed: Mapping[str, Any]) -> set[int]:
    """Return the items that an error of a batch is about."""
    context = failed.get("context")
    traces = context.get(_TRACE) if isinstance(context, dict) else None
    listed = traces if isinstance(traces, list) else []
    return {int(one) for one in listed if isinstance(one, str) and one.isdecimal()}
