"""Batch writes of contacts: one call for all updates and one for all creates.

A write is repeated alone where HubSpot's error for the batch is too vague. HubSpot's batch upsert
by email is not used: it resets the properties that are not sent. Each input has a trace id, because
without trace ids a batch succeeds or fails as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.hubspot.answers import objects_in, text_of
from adapters.hubspot.api import Api
from adapters.hubspot.failures import item_failure
from adapters.hubspot.values import PLAIN
from adapters.hubspot.writing import Writing
from crmhub.adapter import (
    AdapterError,
    Conflict,
    ContactWrite,
    NotFound,
    Outcome,
    Rejected,
    Saved,
    Uncertain,
)
from crmhub.adapter.http import Answer

_TRACE = "objectWriteTraceId"


class Batch:
    """Several contact writes that are sent together."""

    def __init__(self, api: Api, writing: Writing, writes: Sequence[ContactWrite]) -> None:
        self._api = api
        self._writing = writing
        self._writes = writes
        self._outcomes: dict[int, Saved | AdapterError] = {}

    def run(self) -> list[Saved | AdapterError | None]:
        """Return the result of each write, or None for a write that must be repeated alone."""
        updates: dict[int, dict[str, Any]] = {}
        creates: dict[int, dict[str, Any]] = {}
        for index, write in enumerate(self._writes):
            try:
                fit = self._writing.fitted(write.properties)
            except Rejected as exc:
                self._outcomes[index] = exc
                continue
            if write.contact_id:
                updates[index] = {"id": write.contact_id, "properties": fit}
            else:
                mark = self._writing.marked("contacts", write.mark)
                creates[index] = {"properties": fit | mark, "associations": []}
        self._send("update", updates, "updated")
        self._send("create", creates, "created")
        return [self._outcomes.get(index) for index in range(len(self._writes))]

    def _send(self, what: str, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        """Write all items in one call and store the result of each."""
        if not items:
            return
        inputs = [item | {_TRACE: str(index)} for index, item in items.items()]
        try:
            answer = self._writing.send_batch(what, inputs)
            self._note(answer, items, outcome)
        except (Conflict, NotFound, Rejected):
            return
        except AdapterError as exc:
            for index in items:
                self._outcomes.setdefault(index, exc)

    def _note(self, answer: Answer, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        written = answer.items()
        for record in written:
            index = _index_of(record, items)
            if index is not None:
                saved = self._api.saved("contacts", answer, record, outcome)
                self._outcomes[index] = saved
        for failed in objects_in(answer.object().get("errors")):
            # Masked like a failed answer, since people read these errors.
            clean = json.loads(self._api.mask(json.dumps(failed)))
            error = item_failure(answer, clean)
            for index in _indexes_in(failed) & items.keys():
                if not _may_succeed_alone(error, items[index]["properties"]):
                    self._outcomes[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                self._outcomes.setdefault(index, error)


def _index_of(record: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return the index of the item that a record is the result of; its trace id may be missing."""
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

    Sent alone, a conflict names the contact that has the email, and refused values are converted
    again with newer definitions.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent.keys() - PLAIN))
    return isinstance(error, Conflict | NotFound)


def _indexes_in(failed: Mapping[str, Any]) -> set[int]:
    """Return the indexes of the items that an error of a batch is about."""
    context = failed.get("context")
    traces = context.get(_TRACE) if isinstance(context, dict) else None
    listed = traces if isinstance(traces, list) else []
    return {int(trace) for trace in listed if isinstance(trace, str) and trace.isdecimal()}
