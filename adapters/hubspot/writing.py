"""Write contacts, deals and tickets to HubSpot, contacts also in batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.answers import objects_in, text_of
from adapters.hubspot.api import Api
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.failures import item_failure
from adapters.hubspot.values import LIFECYCLE, PLAIN, Values
from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Kind,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Uncertain,
    Written,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.remembered import HOUR

_TRACE = "objectWriteTraceId"


class Writing:
    """Creates and updates records in the HubSpot account of one connection."""

    def __init__(
        self, api: Api, definitions: Definitions, values: Values, context: Context
    ) -> None:
        self._api = api
        self._definitions = definitions
        self._values = values
        self._mark = context.settings["mark_property"]

    def create(
        self, kind: Written, properties: Mapping[str, str], mark: str, links: Sequence[Any]
    ) -> Saved:
        """Create a record with its mark and its links to existing records.

        `mark` is the text that identifies this create, and `links` has the format of HubSpot's
        `associations`. If an earlier attempt has already created a record with this mark, return
        that record.
        """
        try:
            answer, _ = self._send("POST", kind, (), properties, mark=mark, links=links)
        except Conflict as clash:
            earlier = self.by_mark(kind, mark) if clash.name == self._mark else None
            if earlier is None:
                raise
            return earlier
        return self._api.saved(kind, answer, answer.object(), "created")

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Update properties of a contact.

        HubSpot silently ignores a lifecycle stage before the present one; the result then lists the
        stage as refused.
        """
        answer, sent = self._send("PATCH", "contacts", (contact_id,), properties)
        record = answer.object()
        saved = self._api.saved("contacts", answer, record, "updated")
        values = record.get("properties")
        present = text_of(values.get(LIFECYCLE)) if isinstance(values, dict) else ""
        if present and sent.get(LIFECYCLE) and present != sent[LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_backward_problem(present),))
        return saved

    def write_batch(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        """Write several contacts in two calls: one for all updates, one for all creates.

        Return the result or error of each write, in the order of `writes`. The item None means that
        the caller must send this write alone, because HubSpot's error for the batch does not say
        enough.
        """
        updates: dict[int, dict[str, Any]] = {}
        creates: dict[int, dict[str, Any]] = {}
        results: dict[int, Saved | AdapterError] = {}
        for index, write in enumerate(writes):
            try:
                fit = self._values.fitted("contacts", write.properties)
            except Rejected as exc:
                results[index] = exc
                continue
            if write.contact_id:
                updates[index] = {"id": write.contact_id, "properties": fit}
            else:
                mark = self.marked("contacts", write.mark)
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
        """Send the items of a batch in one call, and add the result of each item to `results`.

        `action` is "create" or "update"; `outcome` is the outcome of a successful write. `items`
        and `results` are keyed by the index of the write. An item that must be sent alone gets no
        result.
        """
        if not items:
            return
        # Without trace ids a batch succeeds or fails as a whole.
        inputs = [item | {_TRACE: str(index)} for index, item in items.items()]
        names = {name for item in items.values() for name in item["properties"]}
        path = self._api.objects("contacts", "batch", action)
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

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ from the contact's, in HubSpot's format.

        A lifecycle stage before the contact's present stage is listed as refused, since HubSpot
        silently ignores it.
        """
        fit = self._values.fitted("contacts", properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(LIFECYCLE, ""), fit.get(LIFECYCLE, "")
        if stage and new_stage and self._values.is_backward(stage, new_stage):
            del fit[LIFECYCLE]
            refused = (_backward_problem(stage),)
        return Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def marked(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the mark as a property to send: a mapping of the mark property's name to `mark`.

        A mark is the text that identifies a write. The result is empty if `mark` is "" or the
        account has no property for marks. The cached definition of that property is used if it was
        loaded within the last `newer_than` seconds.
        """
        if not mark or not self._definitions.mark(kind, newer_than=newer_than):
            return {}
        return {self._mark: mark}

    def by_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return the record of this kind with this mark, or None if there is none.

        A mark is a text that the hub has written into the record. The mark property must have
        unique values.
        """
        try:
            answer = self._api.get(kind, mark, {"idProperty": self._mark})
        except NotFound:
            return None
        return self._api.saved(kind, answer, answer.object(), "created")

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

        `path` holds the last segments of the URL path, such as the record's id. `mark` is the text
        that identifies a create; `links` are a new record's links, or None in an update. If HubSpot
        refuses values, they are converted again with newer definitions and sent once more. Raises
        Rejected with all values that HubSpot cannot store.
        """
        sent = self._values.fitted(kind, properties) | self.marked(kind, mark)
        try:
            return self._send_once(method, kind, path, sent, links), sent
        except Rejected as refused:
            reasons = {problem.name: problem.reason for problem in refused.problems}
            if not reasons.keys() & sent.keys():
                raise
            # The cached definitions may be outdated, so convert once more with fresh ones.
            stale_s = self._definitions.stale_s
            resent = self._values.fitted(kind, properties, newer_than=stale_s)
            mark_refused = bool(mark) and self._mark in reasons
            resent |= self.marked(kind, mark, newer_than=0.0 if mark_refused else stale_s)
            if mark_refused and self._mark in resent:
                raise self._mark_refused_error(kind, reasons[self._mark]) from refused
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
            return self._api.send(method, *self._api.objects(kind, *path), body=body)

    def _mark_refused_error(self, kind: Kind, reason: str) -> BadConfig:
        # Without the mark, a write whose answer was lost could not be found again.
        return BadConfig(
            f"HubSpot does not take the hub's mark in {self._mark} of {kind}: {reason}. Free this"
            " property of rules, or name another one as mark_property."
        )


def _backward_problem(present: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{present}" already; clear it first'
    return Problem(LIFECYCLE, reason)


def _index_of(record: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return the index of the batch item to which a record of HubSpot's response belongs.

    `items` are the items of the batch by index. The items are matched by trace id; without trace
    ids, by contact id or email. Returns None if no item matches.
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

    `sent` are the properties of the write. HubSpot's conflict for a single write names the contact
    that has the email, and refused values of a single write are converted again with newer
    definitions.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent.keys() - PLAIN))
    return isinstance(error, Conflict | NotFound)


def _indexes_in(failed: Mapping[str, Any]) -> set[int]:
    """Return the indexes of the batch items that have the error `failed`.

    `failed` is an entry in the `errors` of HubSpot's response to a batch.
    """
    context = failed.get("context")
    traces = context.get(_TRACE) if isinstance(context, dict) else None
    listed = traces if isinstance(traces, list) else []
    return {int(trace) for trace in listed if isinstance(trace, str) and trace.isdecimal()}
