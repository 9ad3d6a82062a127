"""Write contacts, deals and tickets to HubSpot, contacts also in batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from adapters.hubspot.failures import item_failure
from adapters.hubspot.reading import Reading
from crmhub.adapter import (
    AdapterError,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Linked,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Uncertain,
    Written,
)
from crmhub.adapter.answers import Answer, objects_in, text_of, value_at
from crmhub.adapter.batches import Action, Results, write_batches
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.phones import PHONES

_LIFECYCLE = "lifecyclestage"
# HubSpot requires one of these for a contact.
_CALLED = ("email", "firstname", "lastname")
# These are text in every account, so writing them does not need the large definitions.
_PLAIN = frozenset(
    {*_CALLED, *PHONES, "company", "jobtitle", "address", "city", "state", "zip", "country"}
    | {"website", "message"}
)
# Association types differ by direction: these lead to the contact.
_TO_CONTACT: Mapping[Linked, int] = {"deals": 3, "tickets": 16}
_TRACE = "objectWriteTraceId"


class Writing(Reading):
    """The part of the adapter that creates and updates records."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.fitting = Fitting(self.definitions, owner="hubspot_owner_id", plain=_PLAIN)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; one with neither email nor name gets its phone as first name, too."""
        try:
            return self._create("contacts", properties, mark, [])
        except Rejected as refused:
            refused_names = {problem.name for problem in refused.problems}
            phone = next(filter(None, map(properties.get, PHONES)), "")
            has_name = any(map(properties.get, _CALLED))
            if has_name or not phone or refused_names & properties.keys():
                raise
        return self._create("contacts", {**properties, "firstname": phone}, mark, [])

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or ticket together with its link to the contact, in one call."""
        self.check_id(contact_id)
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": _TO_CONTACT[kind]}
        return self._create(kind, properties, mark, [{"to": {"id": contact_id}, "types": [link]}])

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Update a contact.

        HubSpot silently ignores a lifecycle stage before the present one; the result then lists the
        stage as refused.
        """
        self.check_id(contact_id)
        path = self._api.path("objects", "contacts", contact_id)
        answer, sent = self._send("PATCH", path, "contacts", properties)
        record = answer.object()
        saved = self._api.saved("contacts", answer, record, "updated")
        present = text_of(value_at(record, "properties", _LIFECYCLE))
        if present and sent.get(_LIFECYCLE) and present != sent[_LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_backward_problem(present),))
        return saved

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        fit = self.fitting.fitted("contacts", properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(_LIFECYCLE, ""), fit.get(_LIFECYCLE, "")
        if stage and new_stage and self._is_backward(stage, new_stage):
            del fit[_LIFECYCLE]
            refused = (_backward_problem(stage),)
        return Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def _is_backward(self, present: str, wanted: str) -> bool:
        described = self.definitions.properties("contacts", [_LIFECYCLE]).get(_LIFECYCLE)
        stages = [option.value for option in described.options] if described else []
        return {present, wanted} <= set(stages) and stages.index(wanted) < stages.index(present)

    # Single records.

    def _create(
        self, kind: Written, properties: Mapping[str, str], mark: str, links: Sequence[Any]
    ) -> Saved:
        """Create a record with its mark, and with `links` in the format of `associations`.

        If an earlier attempt has already created a record with this mark, return that record.
        """
        try:
            path = self._api.path("objects", kind)
            answer, _ = self._send("POST", path, kind, properties, mark=mark, links=links)
        except Conflict as clash:
            earlier = self.find_unique_mark(kind, mark) if clash.name == self.mark_name else None
            if earlier is None:
                raise
            return earlier
        return self._api.saved(kind, answer, answer.object(), "created")

    def find_unique_mark(self, kind: Written, mark: str) -> Saved | None:
        path = self._api.path("objects", kind, mark)
        try:
            answer = self._api.send("GET", *path, params={"idProperty": self.mark_name})
        except NotFound:
            return None
        return self._api.saved(kind, answer, answer.object(), "created")

    def _send(
        self,
        method: str,
        path: Sequence[str],
        kind: Written,
        properties: Mapping[str, str],
        *,
        mark: str = "",
        links: Sequence[Any] | None = None,
    ) -> tuple[Answer, dict[str, str]]:
        """Convert properties and send them; return HubSpot's response and the sent properties.

        Raises Rejected with all values that HubSpot cannot store.
        """

        def send(fit: dict[str, str]) -> Answer:
            sent = fit | self.mark_to_send(kind, mark)
            body: dict[str, Any] = {"properties": sent}
            if links is not None:
                # A new record has no values to clear.
                body = {"properties": {n: v for n, v in sent.items() if v}, "associations": links}
            try:
                with self.definitions.reject_sensitive(kind, body["properties"]):
                    return self._api.send(method, *path, body=body)
            except Rejected as refused:
                names = {one.name for one in refused.problems}
                if not mark or self.mark_name not in names & sent.keys():
                    raise
                if self.mark_to_send(kind, mark, newer_than=0.0):
                    self.raise_for_mark(kind, {}, refused)
            return send(fit)

        return self.fitting.write(kind, properties, send)

    # Batches.

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        fit = partial(self.fitting.fitted, "contacts")
        return write_batches(writes, fit=fit, send=self._send_batch)

    def _send_batch(
        self, action: Action, items: Mapping[int, ContactWrite], results: Results
    ) -> None:
        # Not HubSpot's batch upsert: it resets the properties that are not sent.
        inputs = []
        for index, item in items.items():
            # Without trace ids a batch succeeds or fails as a whole.
            sent: dict[str, Any] = {_TRACE: str(index), "properties": item.properties}
            if action == "update":
                inputs.append(sent | {"id": item.contact_id})
            else:
                properties = {**item.properties, **self.mark_to_send("contacts", item.mark)}
                inputs.append(sent | {"properties": properties, "associations": []})
        names = {name for sent in inputs for name in sent["properties"]}
        path = self._api.path("objects", "contacts", "batch", action)
        with self.definitions.reject_sensitive("contacts", names):
            answer = self._api.send("POST", *path, body={"inputs": inputs})
        self._add_results(answer, items, "updated" if action == "update" else "created", results)

    def _add_results(
        self,
        answer: Answer,
        items: Mapping[int, ContactWrite],
        outcome: Outcome,
        results: Results,
    ) -> None:
        written = answer.items()
        for record in written:
            index = _index_of(record, items)
            if index is not None:
                results[index] = self._api.saved("contacts", answer, record, outcome)
        for failed in objects_in(answer.object().get("errors")):
            # Masked like a failed answer, since people read these errors.
            clean = json.loads(self._api.mask(json.dumps(failed)))
            error = item_failure(answer, clean)
            for index in _indexes_in(failed) & items.keys():
                if not _may_succeed_alone(error, {*items[index].properties, self.mark_name}):
                    results[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                results.setdefault(index, error)


def _backward_problem(present: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{present}" already; clear it first'
    return Problem(_LIFECYCLE, reason)


def _index_of(record: Mapping[str, Any], items: Mapping[int, ContactWrite]) -> int | None:
    """Return the index of the item of a record: by trace id, or else by contact id or email."""
    email = text_of(value_at(record, "properties", "email")).lower()
    for index, item in items.items():
        if _TRACE in record:
            same = record[_TRACE] == str(index)
        elif item.contact_id:
            same = item.contact_id == record.get("id")
        else:
            same = item.properties.get("email") == email
        if same:
            return index
    return None


def _may_succeed_alone(error: AdapterError, sent: Set[str]) -> bool:
    """Return whether a write that failed in a batch may succeed when it is sent alone.

    HubSpot's conflict for a single write names the contact that has the email, and refused values
    of a single write are converted again with newer definitions.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent - _PLAIN))
    return isinstance(error, Conflict | NotFound)


def _indexes_in(failed: Mapping[str, Any]) -> set[int]:
    """Return the indexes of the items that have the error `failed`, an entry of `errors`."""
    traces = value_at(failed, "context", _TRACE)
    listed = traces if isinstance(traces, list) else []
    return {int(trace) for trace in listed if isinstance(trace, str) and trace.isdecimal()}
