"""A write of one record by the public API or an agent, made in the account's CRM as an action.

It goes the way of the helpers' calls: through the journal, within the CRM's budget and behind its
circuit breaker, with a mark by which a create in doubt is found before it is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Kind, Saved, hold_back_create, hold_back_update
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict, HubError, NotFound, Semantic, listed
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, newest
from crmhub.helpers.copied_writes import order_of
from crmhub.identity import bindings, resolution
from crmhub.properties.kinds import KINDS
from crmhub.properties.validation import property_path
from crmhub.queue.models import New, new_id
from crmhub.records import copied, copies, writing
from crmhub.translatable import join_texts

Links = Mapping[Kind, Sequence[str]]


@dataclass(frozen=True, slots=True)
class WriteRecord(Action):
    """Ids are the CRM's. `record_id`: "" creates a record, unless `by_email` finds a contact.

    `links`, `unlinks`: associations to add and to remove. `archives`: archive the record, and do
    nothing else. `merges`: the contact or company that becomes a part of this one first.
    `if_match`: the versions of the copy's record that may be changed; empty for any.
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
    if_match: Sequence[int] = ()

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        request = {name: value for name, value in asdict(self).items() if value}
        if self.record != "contacts":
            # A record of another kind belongs to no person; its writes run in order, too.
            order = order_of(KINDS[self.record], self.record_id or new_id(now_ms()))
            return New(self.kind, order, "", request, first=not self.record_id)
        if not self.record_id:
            email, phone = (self.properties.get(name, "") for name in ("email", "phone"))
            binding = resolution.bind_new_contact(tx, account, email=email, phone=phone)
            return New(self.kind, binding.person, binding.hub_id, request)
        bound = bindings.of_contact(tx, account, self.record_id)
        if bound is None:
            return New(self.kind, self.record_id, self.record_id, request)
        return New(self.kind, resolution.person_now(tx, account, bound), bound.hub_id, request)

    def mapped(self, account: Account) -> Mapped:
        return Mapped(self.properties)

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        """Its caller has checked the values by the CRM's definitions."""

    def perform(self, at: Attempt) -> Done:
        self._check_version(at)
        done: list[str] = []
        try:
            return self._archive(at) if self.archives else self._perform(at, done)
        except contract.NotFound as exc:
            if self.record_id:
                raise NotFound(exc.message) from exc
            raise Semantic(f"associations: {exc.message}") from exc
        except contract.Rejected as exc:
            problems = [(property_path("", one.name), one.reason) for one in exc.problems]
            message = listed(problems) if problems else exc.message
            raise Semantic(join_texts(" ", [message, *done])) from exc
        except contract.Conflict as exc:
            exc.message = " ".join([exc.message, *done])
            raise
        except (contract.Uncertain, contract.Unsupported):
            raise
        except contract.AdapterError as exc:
            if done:
                # What follows must go on with the record, not make it again.
                raise contract.Uncertain(exc.message) from exc
            raise

    def _check_version(self, at: Attempt) -> None:
        """Raise Conflict if the record has changed; an earlier write is in the copy, or told."""
        if not self.if_match or at.entry.doubt_since:
            return
        kind, store = KINDS[self.record], at.hub.records
        with at.hub.database.reading() as db:
            is_told = copies.is_told(db, at.account, kind, self.record_id)
        found = store.read_by(at.account, kind, copied.ID, [self.record_id])
        if is_told or not found:
            raise Conflict(f"If-Match: the {kind.singular} is being changed. Read it again.")
        writing.check_match(kind, found[0], frozenset(self.if_match))

    def _perform(self, at: Attempt, done: list[str]) -> Done:
        """`done`: sentences on what the CRM has taken already, for the error of what follows."""
        saved = Saved(self.record_id, "unchanged")
        if self.merges:
            saved = self._merge(at)
            done.append("The records are merged already.")
        elif not self.record_id:
            saved = self._create(at)
            done.append("The record is written already.")
        # Links come first, since values of a record that exists are refused more often.
        if self._link(at, saved, done) and saved.outcome == "unchanged":
            saved = replace(saved, outcome="updated")
        if self.record_id and self.properties:
            saved = self._update(at, saved.id)
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

    def _link(self, at: Attempt, saved: Saved, done: list[str]) -> bool:
        """Add and remove the links; a new record that cannot have its links is archived again."""
        adapter, is_changed = at.adapter, False
        try:
            for removes, links in ((False, self.links), (True, self.unlinks)):
                for to, ids in links.items():
                    for id in ids:
                        self._link_one(adapter, saved.id, to, id, removes=removes)
                        is_changed = True
        except (HubError, contract.Rejected, contract.Conflict, contract.Unsupported):
            if saved.outcome == "created":
                self._archive_again(adapter, saved.id)
                done.clear()
            raise
        if is_changed:
            done.append("The associations are changed already.")
        return is_changed

    def _link_one(
        self, adapter: Adapter, record_id: str, to: Kind, to_id: str, *, removes: bool
    ) -> None:
        try:
            adapter.link(self.record, record_id, to, to_id, remove=removes)
        except contract.NotFound as exc:
            raise Semantic(f"associations.{to}: {exc.message}") from exc

    def _archive_again(self, adapter: Adapter, record_id: str) -> None:
        try:
            adapter.archive(self.record, record_id)
        except contract.AdapterError as exc:
            words = f"The new record could not be linked, nor archived: {exc.message}"
            raise contract.Uncertain(words) from exc


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


WRITE_OF_KIND: dict[str, type[WriteRecord]] = {
    one.record: one for one in (WriteContact, WriteDeal, WriteCompany, WriteTicket)
}
"""The actions that write a single record, by the name of its kind."""
