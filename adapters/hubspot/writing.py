"""Writing contacts, deals and tickets."""

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
    """Writes the records of one connection."""

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
        """Create a record with its links, or return what this mark's earlier try has made."""

        def send(sent: Mapping[str, str]) -> Saved:
            filled = {name: value for name, value in sent.items() if value}
            body = {"properties": filled, "associations": links}
            with self._definitions.naming(kind, filled):
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
        """Change a contact."""

        def send(sent: Mapping[str, str]) -> Saved:
            path = self._api.objects("contacts", contact_id)
            with self._definitions.naming("contacts", sent):
                answer = self._api.send("PATCH", *path, body={"properties": sent})
            return self._updated(answer, answer.object(), sent)

        return self._written("contacts", properties, send)

    def together(self, what: str, inputs: Sequence[Mapping[str, Any]]) -> Answer:
        """Return the answer to a batch of contacts, `what` being `create` or `update`."""
        path = self._api.objects("contacts", "batch", what)
        names = {name for one in inputs for name in one["properties"]}
        with self._definitions.naming("contacts", names):
            return self._api.send("POST", *path, body={"inputs": inputs})

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return what differs from what the contact holds, in HubSpot's form.

        HubSpot passes over in silence a lifecycle stage before the present one; that is refused.
        """
        fit = self.fitted(properties)
        held = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, wanted = held.get(LIFECYCLE, ""), fit.get(LIFECYCLE, "")
        if stage and wanted and self._values.goes_back(stage, wanted):
            del fit[LIFECYCLE]
            refused = (_no_step_back(stage),)
        return Changes({n: v for n, v in fit.items() if held.get(n) != v}, refused)

    def fitted(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return a contact's values as HubSpot takes them; raises Rejected."""
        return self._values.fitted("contacts", properties)

    def marked(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the property that holds this mark, none where there is no room for it."""
        if not mark or not self._definitions.mark(kind, newer_than=newer_than):
            return {}
        return {self._mark: mark}

    def by_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return the record of this mark, which must be unique in the account."""
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
        """Send the properties as HubSpot takes them; raises Rejected with every misfit."""
        sent = self._values.fitted(kind, properties) | self.marked(kind, mark)
        try:
            return send(sent)
        except Rejected as refused:
            told = {problem.name: problem.reason for problem in refused.problems}
            if not told.keys() & sent.keys():
                raise
            # HubSpot knows what has changed since its definitions were read.
            stale_s = self._definitions.stale_s
            again = self._values.fitted(kind, properties, newer_than=stale_s)
            faulty = bool(mark) and self._mark in told
            again |= self.marked(kind, mark, newer_than=0.0 if faulty else stale_s)
            if faulty and self._mark in again:
                raise self._takes_no_mark(kind, told[self._mark]) from refused
            if again == sent:
                raise
        return send(again)

    def _takes_no_mark(self, kind: Kind, reason: str) -> BadConfig:
        # Written without it, what got lost on the way could not be told from what is not there.
        return BadConfig(
            f"HubSpot does not take the hub's mark in {self._mark} of {kind}: {reason}. Free this"
            " property of rules, or name another one as mark_property."
        )

    def _updated(self, answer: Answer, record: Mapping[str, Any], sent: Mapping[str, str]) -> Saved:
        """Return the contact as saved, and what HubSpot passed over although it said nothing."""
        saved = self._api.saved("contacts", answer, record, "updated")
        values = record.get("properties")
        held = text_of(values.get(LIFECYCLE)) if isinstance(values, dict) else ""
        if held and sent.get(LIFECYCLE) and held != sent[LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_no_step_back(held),))
        return saved


def _no_step_back(held: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{held}" already; clear it first'
    return Problem(LIFECYCLE, reason)
