"""A write of one record by the public API or an agent, made in the account's CRM as an action.

It goes the way of the helpers' calls: through the journal, within the CRM's budget and behind its
circuit breaker, with a mark by which a create in doubt is found before it is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Kind, Saved, hold_back_create, hold_back_update
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import HubError, NotFound
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, newest
from crmhub.identity import bindings, resolution
from crmhub.queue.models import New, new_id

Links = Mapping[Kind, Sequence[str]]


@dataclass(frozen=True, slots=True)
class WriteRecord(Action):
    """Ids are the CRM's. `record_id`: "" creates a record, unless `by_email` finds a contact.

    `links`, `unlinks`: associations to add and to remove. `archives`: archive the record, and do
    nothing else. `merges`: the contact or company that becomes a part of this one first.
    """

    kind: ClassVar[str]
    record: ClassVar[Kind]

    record_id: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    unlinks: Links = field(default_factory=dict)
    archives: bool = False
    by_email: bool = False
    merges: str = ""

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        request = {name: value for name, value in asdict(self).items() if value}
        if self.record != "contacts":
            # A record of another kind belongs to no person; its writes run in order, too.
            order = self.record_id or new_id(now_ms())
            return New(self.kind, f"{self.record} {order}", "", request, first=not self.record_id)
        if not self.record_id:
            # Shared with leads of the same email, so that none of them makes a second contact.
            resolved = resolution.resolve_binding(
                tx, account, token="", email=self.properties.get("email", ""), phone=""
            )
            binding = resolved.binding
            return New(self.kind, binding.person, binding.hub_id, request, first=resolved.new)
        bound = bindings.of_contact(tx, account, self.record_id)
        if bound is None:
            return New(self.kind, self.record_id, self.record_id, request)
        return New(self.kind, resolution.person_now(tx, account, bound), bound.hub_id, request)

    def mapped(self, account: Account) -> Mapped:
        return Mapped(self.properties)

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        """Its caller has checked the values by the CRM's definitions."""

    def perform(self, at: Attempt) -> Done:
        try:
            return self._perform(at)
        except contract.NotFound as exc:
            raise NotFound(exc.message) from exc

    def _perform(self, at: Attempt) -> Done:
        if self.archives:
            return self._archive(at)
        record_id = self.record_id
        saved = Saved(record_id, "unchanged")
        if self.merges:
            saved = self._merge(at)
        elif not record_id:
            saved = self._create(at)
        if record_id and self.properties:
            saved = self._update(at, saved.id)
        if self._link(at, saved.id) and saved.outcome == "unchanged":
            saved = Saved(saved.id, "updated", saved.url, saved.refused)
        is_contact = self.record == "contacts"
        refused = {problem.name for problem in saved.refused}
        return Done(
            saved.outcome,
            contact_id=saved.id if is_contact else "",
            record_id=saved.id,
            url=saved.url if at.adapter.record_pages else None,
            refused=saved.refused,
            values={n: v for n, v in self.properties.items() if is_contact and n not in refused},
        )

    def _archive(self, at: Attempt) -> Done:
        try:
            at.adapter.archive(self.record, self.record_id)
        except contract.NotFound:
            # An earlier attempt may have archived it.
            if not at.entry.doubt_since:
                raise
        return Done("updated", record_id=self.record_id)

    def _merge(self, at: Attempt) -> Saved:
        """An earlier attempt may have merged them, so that only one is left."""
        adapter = at.adapter
        if at.entry.doubt_since:
            left = adapter.get_records(self.record, [self.record_id, self.merges], [])
            if len(left) == 1:
                return Saved(left[0].id, "updated", left[0].url)
        return adapter.merge(self.record, self.record_id, self.merges)

    def _update(self, at: Attempt, record_id: str) -> Saved:
        hold_back_update(at.adapter, at.entry.written_at)
        properties = self.properties
        if self.record == "contacts":
            properties = newest(at, record_id, properties)
        if not properties:
            return Saved(record_id, "unchanged")
        return at.adapter.write(self.record, record_id, properties)

    def _create(self, at: Attempt) -> Saved:
        """Return an earlier attempt's record; NotYet while its write may still reach the CRM."""
        adapter, entry = at.adapter, at.entry
        looks_up = self.by_email or not adapter.unique_emails
        if entry.doubt_since and adapter.can("find_marked"):
            if (found := self._earlier(at, entry.doubt_since)) is not None:
                return found
            hold_back_create(
                adapter, self.record, self.properties, entry.written_at, contact_id=self._contact
            )
        elif entry.doubt_since:
            # The CRM itself returns its record of the same mark, which may have the email.
            looks_up = self.by_email
        email = self.properties.get("email", "") if self.record == "contacts" else ""
        if email and looks_up:
            held = adapter.find_contact(email=email)
            if held is not None:
                return self._of_email(at, held.id)
        began = now_ms()
        try:
            return self._create_once(at)
        except contract.Conflict as exc:
            if self.by_email and exc.existing_id:
                return self._of_email(at, exc.existing_id)
            raise
        except contract.Uncertain:
            # If the search fails, it remains unknown whether the record was created.
            with suppress(contract.AdapterError, HubError):
                if (found := self._earlier(at, began)) is not None:
                    return found
            raise

    def _of_email(self, at: Attempt, contact_id: str) -> Saved:
        """Write the contact that has the email; raises Conflict unless this is wanted."""
        if not self.by_email:
            raise contract.Conflict(
                "another contact has this email", existing_id=contact_id, name="email"
            )
        return self._update(at, contact_id)

    def _create_once(self, at: Attempt) -> Saved:
        adapter, mark = at.adapter, at.entry.id
        if (self.record == "deals" or self.record == "tickets") and self._contact:
            # Some CRMs have no deal or ticket without a contact.
            return adapter.create_for_contact(
                self.record, self._contact, self.properties, mark=mark
            )
        return adapter.write(self.record, "", self.properties, mark=mark)

    @property
    def _contact(self) -> str:
        """The contact that a new deal or ticket is created for; "" without one."""
        contacts = self.links.get("contacts", ()) if self.record in ("deals", "tickets") else ()
        return contacts[0] if contacts else ""

    def _earlier(self, at: Attempt, since_ms: int) -> Saved | None:
        if not at.adapter.can("find_marked"):
            return None
        mark, sent = at.entry.id, self.properties
        return at.adapter.find_marked(
            self.record, self._contact, mark, sent=sent, since_ms=since_ms
        )

    def _link(self, at: Attempt, record_id: str) -> bool:
        """Add and remove the links; a new record that cannot have its links is archived again."""
        adapter, done = at.adapter, False
        try:
            for removes, links in ((False, self.links), (True, self.unlinks)):
                for to, ids in links.items():
                    for id in ids:
                        adapter.link(self.record, record_id, to, id, remove=removes)
                        done = True
        except (contract.Rejected, contract.Conflict, contract.NotFound, contract.Unsupported):
            if not (self.record_id or self.by_email):
                try:
                    adapter.archive(self.record, record_id)
                except contract.AdapterError as exc:
                    raise contract.Uncertain(
                        f"The new record could not be linked, nor archived: {exc.message}"
                    ) from exc
            raise
        return done


@dataclass(frozen=True, slots=True)
class WriteContact(WriteRecord):
    kind = "writeContact"
    record = "contacts"


@dataclass(frozen=True, slots=True)
class WriteDeal(WriteRecord):
    kind = "writeDeal"
    record = "deals"


@dataclass(frozen=True, slots=True)
class WriteCompany(WriteRecord):
    kind = "writeCompany"
    record = "companies"


@dataclass(frozen=True, slots=True)
class WriteTicket(WriteRecord):
    kind = "writeTicket"
    record = "tickets"


WRITES: dict[str, type[WriteRecord]] = {
    one.record: one for one in (WriteContact, WriteDeal, WriteCompany, WriteTicket)
}
"""The actions that write a single record, by the name of its kind."""
