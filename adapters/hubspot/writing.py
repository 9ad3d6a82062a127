"""Writes of contacts, deals and tickets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.answers import text_of
from adapters.hubspot.api import Api
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.values import LIFECYCLE, Values
from crmhub.adapter import (
    BadConfig,
    Changes,
    Conflict,
    Contact,
    Context,
    Kind,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Written,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.remembered import HOUR


class Writing:
    """Creates and updates records through one connection."""

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
        """Create a record with its links.

        If an earlier attempt has created it, return that record.
        """

        def send(sent: Mapping[str, str]) -> Saved:
            values = {name: value for name, value in sent.items() if value}
            body = {"properties": values, "associations": links}
            with self._definitions.reject_sensitive(kind, values):
                answer = self._api.send("POST", *self._api.objects(kind), body=body)
            return self._api.saved(kind, answer, answer.object(), "created")

        try:
            return self._written(kind, properties, send, mark=mark)
        except Conflict as clash:
            earlier = self.by_mark(kind, mark) if clash.name == self._mark else None
            if earlier is None:
                raise
            return earlier

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the named properties of a contact and return the result."""

        def send(sent: Mapping[str, str]) -> Saved:
            path = self._api.objects("contacts", contact_id)
            with self._definitions.reject_sensitive("contacts", sent):
                answer = self._api.send("PATCH", *path, body={"properties": sent})
            return self._updated(answer, answer.object(), sent)

        return self._written("contacts", properties, send)

    def send_batch(self, what: str, inputs: Sequence[Mapping[str, Any]]) -> Answer:
        """Send a batch of contacts to `create` or `update` and return the answer."""
        path = self._api.objects("contacts", "batch", what)
        names = {name for item in inputs for name in item["properties"]}
        with self._definitions.reject_sensitive("contacts", names):
            return self._api.send("POST", *path, body={"inputs": inputs})

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties that differ from the contact's, in HubSpot's format.

        HubSpot silently ignores an earlier lifecycle stage, so it is listed as refused here.
        """
        fit = self.fitted(properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(LIFECYCLE, ""), fit.get(LIFECYCLE, "")
        if stage and new_stage and self._values.is_backward(stage, new_stage):
            del fit[LIFECYCLE]
            refused = (_backward_problem(stage),)
        return Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def fitted(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return a contact's converted properties; raises Rejected."""
        return self._values.fitted("contacts", properties)

    def marked(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the mark as a property; empty if the account has no property for marks."""
        if not mark or not self._definitions.mark(kind, newer_than=newer_than):
            return {}
        return {self._mark: mark}

    def by_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return the record with this mark, or None; the property for marks must be unique."""
        try:
            answer = self._api.get(kind, mark, {"idProperty": self._mark})
        except NotFound:
            return None
        return self._api.saved(kind, answer, answer.object(), "created")

    def _written(
        self,
        kind: Written,
        properties: Mapping[str, str],
        send: Callable[[Mapping[str, str]], Saved],
        *,
        mark: str = "",
    ) -> Saved:
        """Convert the properties and send them.

        Raises Rejected that lists all unsuitable values.
        """
        sent = self._values.fitted(kind, properties) | self.marked(kind, mark)
        try:
            return send(sent)
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
        return send(resent)

    def _mark_refused_error(self, kind: Kind, reason: str) -> BadConfig:
        # Without the mark, a write whose answer was lost could not be found again.
        return BadConfig(
            f"HubSpot does not take the hub's mark in {self._mark} of {kind}: {reason}. Free this"
            " property of rules, or name another one as mark_property."
        )

    def _updated(self, answer: Answer, record: Mapping[str, Any], sent: Mapping[str, str]) -> Saved:
        """Return the result of an update.

        A lifecycle stage that HubSpot ignored counts as refused.
        """
        saved = self._api.saved("contacts", answer, record, "updated")
        values = record.get("properties")
        held = text_of(values.get(LIFECYCLE)) if isinstance(values, dict) else ""
        if held and sent.get(LIFECYCLE) and held != sent[LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_backward_problem(held),))
        return saved


def _backward_problem(held: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{held}" already; clear it first'
    return Problem(LIFECYCLE, reason)
