"""Contacts written with one update and one create; what HubSpot tells badly is left to itself.

An upsert by email would reset what is not sent (HubSpot: not partial), and a batch without trace
ids is all or nothing, so each input carries one.
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
    """Writes of contacts made together."""

    def __init__(self, api: Api, writing: Writing, writes: Sequence[ContactWrite]) -> None:
        self._api = api
        self._writing = writing
        self._writes = writes
        self._outcomes: dict[int, Saved | AdapterError] = {}

    def run(self) -> list[Saved | AdapterError | None]:
        """Return what became of each write, None for one that is to be made by itself."""
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
    """Return whether a write that fails like this may succeed by itself.

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
