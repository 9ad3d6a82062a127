"""Write contacts, deals and tickets to HubSpot, contacts also in batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.api import check_id
from adapters.hubspot.failures import item_failure
from adapters.hubspot.reading import Reading
from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Kind,
    Linked,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Uncertain,
    Written,
)
from crmhub.adapter.answers import Answer, objects_in, text_of
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.phones import PHONES
from crmhub.adapter.remembered import HOUR

_LIFECYCLE = "lifecyclestage"
# HubSpot requires one of these for a contact.
_CALLED = ("email", "firstname", "lastname")
# These are text in every account, so writing them does not need the large definitions.
_PLAIN = frozenset(
    {*_CALLED, *PHONES, "company", "jobtitle", "address", "city", "state", "zip", "country"}
    | {"website", "message"}
)
_PLACES = {"deals": ("pipeline", "dealstage"), "tickets": ("hs_pipeline", "hs_pipeline_stage")}
# Association types differ by direction: these lead to the contact.
_TO_CONTACT: Mapping[Linked, int] = {"deals": 3, "tickets": 16}
_TRACE = "objectWriteTraceId"


class Writing(Reading):
    """The part of the adapter that creates and updates records."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._mark = context.settings["mark_property"]
        self._fitting = Fitting(self._definitions, places=_PLACES, owner="hubspot_owner_id")

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
        check_id(contact_id)
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": _TO_CONTACT[kind]}
        return self._create(kind, properties, mark, [{"to": {"id": contact_id}, "types": [link]}])

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Update a contact.

        HubSpot silently ignores a lifecycle stage before the present one; the result then lists the
        stage as refused.
        """
        check_id(contact_id)
        answer, sent = self._send("PATCH", "contacts", (contact_id,), properties)
        record = answer.object()
        saved = self._api.saved("contacts", answer, record, "updated")
        values = record.get("properties")
        present = text_of(values.get(_LIFECYCLE)) if isinstance(values, dict) else ""
        if present and sent.get(_LIFECYCLE) and present != sent[_LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_backward_problem(present),))
        return saved

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        fit = self._fit("contacts", properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(_LIFECYCLE, ""), fit.get(_LIFECYCLE, "")
        if stage and new_stage and self._is_backward(stage, new_stage):
            del fit[_LIFECYCLE]
            refused = (_backward_problem(stage),)
        return Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def _is_backward(self, present: str, wanted: str) -> bool:
        described = self._definitions.properties("contacts", [_LIFECYCLE]).get(_LIFECYCLE)
        stages = [option.value for option in described.options] if described else []
        return {present, wanted} <= set(stages) and stages.index(wanted) < stages.index(present)

    def _fit(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        if kind == "contacts" and properties.keys() <= _PLAIN:
            return dict(properties)
        return self._fitting.fitted(kind, properties, newer_than=newer_than)

    # Single records.

    def _create(
        self, kind: Written, properties: Mapping[str, str], mark: str, links: Sequence[Any]
    ) -> Saved:
        """Create a record with its mark, and with `links` in the format of `associations`.

        If an earlier attempt has already created a record with this mark, return that record.
        """
        try:
            answer, _ = self._send("POST", kind, (), properties, mark=mark, links=links)
        except Conflict as clash:
            earlier = self._by_mark(kind, mark) if clash.name == self._mark else None
            if earlier is None:
                raise
            return earlier
        return self._api.saved(kind, answer, answer.object(), "created")

    def _by_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return the record with this mark, if the account requires that marks are unique."""
        path = self._api.path("objects", kind, mark)
        try:
            answer = self._api.send("GET", *path, params={"idProperty": self._mark})
        except NotFound:
            return None
        return self._api.saved(kind, answer, answer.object(), "created")

    def _marked(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the mark as a property to send; empty if the account has no property for it."""
        if not mark or not self._definitions.mark(kind, newer_than=newer_than):
            return {}
        return {self._mark: mark}

    def _send(
        self,
        method: str,
        kind: Written,
        path: Sequence[str],
        properties: Mapping[str, str],
        *,
        mark: str = "",
        links: Sequence[Any] | None = None,
    ) -> tuple[Answer, dict[str, str]]:
        """Convert property values and send them; return HubSpot's response and the sent properties.

        If HubSpot refuses values, they are converted again with newer definitions and sent once
        more. Raises Rejected with all values that HubSpot cannot store.
        """
        sent = self._fit(kind, properties) | self._marked(kind, mark)
        try:
            return self._send_once(method, kind, path, sent, links), sent
        except Rejected as refused:
            reasons = {problem.name: problem.reason for problem in refused.problems}
            if not reasons.keys() & sent.keys():
                raise
            stale_s = self._definitions.stale_s
            resent = self._fit(kind, properties, newer_than=stale_s)
            mark_refused = bool(mark) and self._mark in reasons
            resent |= self._marked(kind, mark, newer_than=0.0 if mark_refused else stale_s)
            if mark_refused and self._mark in resent:
                # Without the mark, a write whose answer was lost could not be found again.
                raise BadConfig(
                    f"HubSpot does not take the hub's mark in {self._mark} of {kind}:"
                    f" {reasons[self._mark]}. Free this property of rules, or name another one as"
                    " mark_property."
                ) from refused
            if resent == sent:
                raise
        return self._send_once(method, kind, path, resent, links), resent

    def _send_once(
        self,
        method: str,
        kind: Written,
        path: Sequence[str],
        sent: Mapping[str, str],
        links: Sequence[Any] | None,
    ) -> Answer:
        body: dict[str, Any] = {"properties": sent}
        if links is not None:
            # A new record has no values to clear.
            body = {"properties": {n: v for n, v in sent.items() if v}, "associations": links}
        with self._definitions.reject_sensitive(kind, body["properties"]):
            return self._api.send(method, *self._api.path("objects", kind, *path), body=body)

    # Batches.

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        """Write several contacts in two calls: one for all updates, one for all creates."""
        updates: dict[int, dict[str, Any]] = {}
        creates: dict[int, dict[str, Any]] = {}
        results: dict[int, Saved | AdapterError] = {}
        for index, write in enumerate(writes):
            try:
                fit = self._fit("contacts", write.properties)
            except Rejected as exc:
                results[index] = exc
                continue
            if write.contact_id:
                updates[index] = {"id": write.contact_id, "properties": fit}
            else:
                mark = self._marked("contacts", write.mark)
                creates[index] = {"properties": fit | mark, "associations": []}
        # Not HubSpot's batch upsert: it resets the properties that are not sent.
        self._send_batch("update", updates, "updated", results)
        self._send_batch("create", creates, "created", results)
        return [results.get(index) for index in range(len(writes))]

    def _send_batch(
        self,
        action: str,
        items: Mapping[int, dict[str, Any]],
        outcome: Outcome,
        results: dict[int, Saved | AdapterError],
    ) -> None:
        """Send a batch in one call, and add the result of each item to `results`, by index.

        An item that must be sent alone, since the error of the batch does not say enough about it,
        gets no result.
        """
        if not items:
            return
        # Without trace ids a batch succeeds or fails as a whole.
        inputs = [item | {_TRACE: str(index)} for index, item in items.items()]
        names = {name for item in items.values() for name in item["properties"]}
        path = self._api.path("objects", "contacts", "batch", action)
        try:
            with self._definitions.reject_sensitive("contacts", names):
                answer = self._api.send("POST", *path, body={"inputs": inputs})
            self._add_results(answer, items, outcome, results)
        except (Conflict, NotFound, Rejected):
            return
        except AdapterError as exc:
            for index in items:
                results.setdefault(index, exc)

    def _add_results(
        self,
        answer: Answer,
        items: Mapping[int, dict[str, Any]],
        outcome: Outcome,
        results: dict[int, Saved | AdapterError],
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
                if not _may_succeed_alone(error, items[index]["properties"]):
                    results[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                results.setdefault(index, error)


def _backward_problem(present: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{present}" already; clear it first'
    return Problem(_LIFECYCLE, reason)


def _index_of(record: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return the index of the item to which a record belongs; None if there is no such item.

    The items are matched by trace id; without trace ids, by contact id or email.
    """
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


def _may_succeed_alone(error: AdapterError, sent: Mapping[str, str]) -> bool:
    """Return whether a write that failed in a batch may succeed when it is sent alone.

    HubSpot's conflict for a single write names the contact that has the email, and refused values
    of a single write are converted again with newer definitions.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent.keys() - _PLAIN))
    return isinstance(error, Conflict | NotFound)


def _indexes_in(failed: Mapping[str, Any]) -> set[int]:
    """Return the indexes of the items that have the error `failed`, an entry of `errors`."""
    context = failed.get("context")
    traces = context.get(_TRACE) if isinstance(context, dict) else None
    listed = traces if isinstance(traces, list) else []
    return {int(trace) for trace in listed if isinstance(trace, str) and trace.isdecimal()}
