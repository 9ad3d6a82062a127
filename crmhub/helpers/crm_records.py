"""Records of an account whose CRM the hub copies: changes are made in the CRM, then in the copy.

The CRM has no transactions. The inputs of a batch are checked together by the CRM's definitions,
and then written in order; the first one that the CRM refuses ends the batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TypeVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import AdapterError
from crmhub.crm.connection import connect
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.deadlines import since, within
from crmhub.database.connection import now_ms
from crmhub.database.rows import find_row
from crmhub.database.tables import action
from crmhub.errors import (
    BadRequest,
    Conflict,
    HubError,
    LimitExceeded,
    Semantic,
    Unavailable,
    listed,
)
from crmhub.helpers import copied_writes, dispatch, read_crm
from crmhub.helpers.attempts import Done
from crmhub.helpers.notes import AddNote
from crmhub.helpers.record_writes import WRITE_OF_KIND, Links, WriteRecord
from crmhub.hub import Hub
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.properties.validation import InvalidProperties, Problem, check, property_path
from crmhub.queue.models import new_id
from crmhub.queue.outcomes import take_refusal
from crmhub.records import associations, copied, copies, documents, unique_values, upserts, writing
from crmhub.records.models import Change, NewRecord, Record, Upsert
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.translatable import as_text

# A caller waits for a whole batch.
_BATCH_S = 25.0
T = TypeVar("T")


class Deferred(Unavailable):
    """A worker finishes writes, or copies what was written; `action_ids` are the actions."""

    def __init__(self, *action_ids: str) -> None:
        super().__init__(
            f"Accepted as {', '.join(action_ids)}, which a worker finishes; do not send it again."
        )
        self.action_ids = action_ids


@dataclass(slots=True)
class CrmRecords:
    """The writes of `RecordStore` and of `linking`, with the same errors; those of the CRM, too.

    `key`: the caller's Idempotency-Key, "" for none. `author`: the id of an agent's API key.
    `may_wait`: let a worker write while the CRM is unavailable. Methods raise Deferred for writes
    that a worker finishes, and Unavailable if nothing was written since the CRM is unavailable.
    """

    hub: Hub
    key: str = ""
    author: str = ""
    may_wait: bool = False
    _ends_at: float = field(default=0.0, init=False)

    def create(self, account: Account, kind: Kind, inputs: Sequence[NewRecord]) -> list[Record]:
        def prepare(catalogue: Catalogue) -> list[NewRecord]:
            validate = partial(check, region=account.switches.region)
            new = documents.check_new(catalogue, inputs, validate, may_lack=False)
            _refuse_twins(catalogue, new)
            return new

        clean = self._checked(account, kind, prepare)
        if len(clean) > 1 and kind is CONTACTS and not self._has_begun(account, clean[0].path):
            self._refuse_known_emails(account, clean)
        self._require_room(account, kind, len(clean))
        links = self._crm_links(account, [(each.path, each.associations) for each in clean])
        writes = [
            (each.path, WRITE_OF_KIND[kind.name]("", each.properties, to))
            for each, to in zip(clean, links, strict=True)
        ]
        return [record for record, _ in self._write(account, kind, writes)]

    def update(self, account: Account, kind: Kind, changes: Sequence[Change]) -> list[Record]:
        writing.same_record_twice([(each.id, each.path) for each in changes])
        current = self._present(account, kind, [(each.id, each.path) for each in changes])
        for each in changes:
            writing.check_match(kind, current[each.id], each.if_match)

        values = self._to_send(account, kind, changes, current)
        links = self._crm_links(account, [(each.path, each.associations) for each in changes])
        make = WRITE_OF_KIND[kind.name]
        writes = [
            (each.path, make(_crm_id(current[each.id]), sent, to, if_match=_sorted(each.if_match)))
            for each, sent, to in zip(changes, values, links, strict=True)
        ]
        return [record for record, _ in self._write(account, kind, writes)]

    def upsert(
        self, account: Account, kind: Kind, inputs: Sequence[Upsert]
    ) -> list[tuple[Record, bool]]:
        """By `crm_id`, or contacts by `email`; raises Semantic for an unknown `crm_id`."""
        prepared = self._checked(
            account,
            kind,
            lambda catalogue: upserts.prepare(account, _with_email_as_key(catalogue), inputs),
        )
        by_id = {each.value: each for each in prepared if each.by.name == copied.ID}
        found = self.hub.records.read_by(account, kind, copied.ID, [*by_id]) if by_id else []
        known = {_crm_id(record): record for record in found}
        if lost := [
            (f"{each.new.path}id", "no record has this crm_id, which the CRM itself issues")
            for value, each in by_id.items()
            if value not in known
        ]:
            raise Semantic(listed(lost))
        of_email = {record.properties.get("email", ""): record.id for record in found}
        ids = [
            known[each.value].id if each.by.name == copied.ID else of_email.get(each.value, 0)
            for each in prepared
        ]
        paths = [each.new.path for each in prepared]
        writing.same_record_twice([one for one in zip(ids, paths, strict=True) if one[0]])
        changes = [_change_of(by_id[value].new, record.id) for value, record in known.items()]
        current = {record.id: record for record in found}
        values = dict(zip(known, self._to_send(account, kind, changes, current), strict=True))
        links = self._crm_links(account, [(one.new.path, one.new.associations) for one in prepared])
        make = WRITE_OF_KIND[kind.name]
        writes = [
            (
                each.new.path,
                make(each.value, values[each.value], to)
                if each.by.name == copied.ID
                else make("", each.new.properties, to, by_email=True),
            )
            for each, to in zip(prepared, links, strict=True)
        ]
        return self._write(account, kind, writes)

    def archive(
        self,
        account: Account,
        kind: Kind,
        ids: Sequence[tuple[int, str]],
        *,
        if_match: frozenset[int] | None = None,
    ) -> None:
        current = self._present(account, kind, ids)
        for record in current.values():
            writing.check_match(kind, record, if_match)
        make = WRITE_OF_KIND[kind.name]
        writes = [
            (path, make(_crm_id(current[id]), archives=True, if_match=_sorted(if_match)))
            for id, path in dict(ids).items()
        ]
        self._write(account, kind, writes)

    def link(
        self,
        account: Account,
        kind: Kind,
        id: int,
        to: Kind,
        to_id: int,
        *,
        removes: bool = False,
    ) -> None:
        """Associate two records in the CRM, or remove the association; raises as `linking`."""
        if (kind, id) == (to, to_id):
            raise Semantic(f"{kind.singular} {id} cannot be associated with itself.")
        record = self._present(account, kind, [(id, "")])[id]
        links: Links
        if removes:
            there = self.hub.records.read(account, to, [to_id])
            links = {contract_kind(to): [_crm_id(one) for one in there]}
        else:
            [links] = self._crm_links(account, [("", {to.name: [to_id]})])
        if not any(links.values()):
            return
        write = WRITE_OF_KIND[kind.name](
            _crm_id(record),
            links={} if removes else links,
            unlinks=links if removes else {},
        )
        self._write(account, kind, [("", write)])

    def merge(
        self, account: Account, kind: Kind, kept_id: int, other_id: int, change: Mapping[str, str]
    ) -> Record:
        """Merge two contacts or companies in the CRM, which decides which values stay."""
        if kept_id == other_id:
            raise Semantic("merge: is the same as keep; send the ids of two records.")
        current = self._present(account, kind, [(kept_id, ""), (other_id, "")])

        def prepare(catalogue: Catalogue) -> Mapping[str, str]:
            validate = partial(check, region=account.switches.region)
            [clean] = documents.check_changes(catalogue, [Change(kept_id, change)], validate)
            return clean.properties

        write = WRITE_OF_KIND[kind.name](
            _crm_id(current[kept_id]),
            self._checked(account, kind, prepare),
            merges=_crm_id(current[other_id]),
        )
        return self._write(account, kind, [("", write)])[0][0]

    def add_note(self, account: Account, kind: Kind, id: int, note: AddNote) -> str:
        """Add a note to a record of the CRM, and return the id of the action that did."""
        record = self._present(account, kind, [(id, "")])[id]
        of = contract_kind(kind)
        if of == "companies":
            raise Semantic("The hub adds no notes to companies of a CRM; add it to a contact.")
        # Without a key, each request adds a note, also if another has the same text.
        once = replace(self, key=self.key or new_id(now_ms()))
        with since(time.monotonic()):
            return once._write_one(
                account, kind, replace(note, of=of, record_id=_crm_id(record)), ""
            ).action_id

    # Checking

    def _checked(self, account: Account, kind: Kind, prepare: Callable[[Catalogue], T]) -> T:
        records = self.hub.records
        try:
            return prepare(records.catalogue(account, kind))
        except InvalidProperties:
            # The CRM may have newer definitions.
            copies.want_newer_definitions(self.hub.database, account, kind)
            raise

    def _to_send(
        self,
        account: Account,
        kind: Kind,
        changes: Sequence[Change],
        current: Mapping[int, Record],
    ) -> list[Mapping[str, str]]:
        """Return the properties to write for each change; raises InvalidProperties."""

        def prepare(catalogue: Catalogue) -> list[Mapping[str, str]]:
            validate = partial(check, region=account.switches.region)
            clean = documents.check_changes(catalogue, changes, validate)
            _refuse_twins(catalogue, clean)
            problems: list[Problem] = []
            whole = [
                documents.merged(catalogue, current[each.id], each, i, problems)
                for i, each in enumerate(clean)
            ]
            if problems:
                raise InvalidProperties(problems)
            return [
                _named_or_changed(current[each.id].properties, new, each.properties)
                for each, new in zip(clean, whole, strict=True)
            ]

        return self._checked(account, kind, prepare)

    def _present(
        self, account: Account, kind: Kind, ids: Sequence[tuple[int, str]]
    ) -> dict[int, Record]:
        found = self.hub.records.read(account, kind, [id for id, _ in ids])
        current = {record.id: record for record in found}
        writing.require(kind, current, ids)
        return current

    def _refuse_known_emails(self, account: Account, inputs: Sequence[NewRecord]) -> None:
        """Refuse a whole batch for what the copy knows, since the CRM takes one input at a time.

        A single input is left to the CRM: the copy may be a minute old.
        """
        paths = {email: each.path for each in inputs if (email := each.properties.get("email"))}
        if not paths:
            return
        taken = Query((Filter("email", "IN", values=tuple(paths)),), limit=len(paths))
        page = self.hub.records.page(account, CONTACTS, PageRequest(taken, properties=("email",)))
        held = [(json.loads(each.properties)["email"], each.id) for each in page.records]
        if held:
            raise unique_values.duplicate_values(
                CONTACTS, [(paths[email], "email", id) for email, id in held]
            )

    def _has_begun(self, account: Account, path: str) -> bool:
        """Return whether an earlier request with the caller's key has written this input."""
        if not self.key:
            return False
        of = {"account_id": account.id, "idempotency_key": self._key_of(path)}
        with self.hub.database.reading() as connection:
            return find_row(connection, action, of) is not None

    def _require_room(self, account: Account, kind: Kind, more: int) -> None:
        quota = account.plan.quotas.get(kind.name)
        if quota is not None and self.hub.records.counts(account).get(kind.code, 0) + more > quota:
            raise LimitExceeded(
                "The plan allows %(quota)s %(records)s, and no more can be stored. Archive some, or"
                " ask the operator for a larger plan.",
                quota=quota,
                records=as_text(kind.name),
            )

    def _crm_links(
        self, account: Account, asked: Sequence[tuple[str, Mapping[str, Sequence[int]]]]
    ) -> list[Links]:
        """Return the CRM's ids of the records to link; raises Semantic for missing ones."""
        wanted = [
            (path, to, id)
            for path, links in asked
            for path, to, id in associations.wanted(links, path)
        ]
        if not wanted:
            return [{} for _ in asked]
        self.hub.database.transact(lambda tx: associations.require(tx, account.id, wanted))
        crm_ids = {
            (to.name, record.id): _crm_id(record)
            for to in {to for _, to, _ in wanted}
            for record in self.hub.records.read(
                account, to, [id for _, kind, id in wanted if kind is to]
            )
        }
        if lost := [
            (path, "is archived") for path, to, id in wanted if (to.name, id) not in crm_ids
        ]:
            raise Semantic(listed(lost))
        return [
            {
                contract_kind(KINDS[name]): [crm_ids[name, id] for id in dict.fromkeys(ids)]
                for name, ids in links.items()
            }
            for _, links in asked
        ]

    # Writing

    def _write(
        self, account: Account, kind: Kind, writes: Sequence[tuple[str, WriteRecord]]
    ) -> list[tuple[Record, bool]]:
        """Return each record as the CRM has it, and whether it is new; none if archived."""
        written: list[tuple[Record, bool]] = []
        deferred: list[str] = []
        for index, (path, write) in enumerate(writes):
            try:
                self._require_time()
                # The deadline of the account is for one write.
                with since(time.monotonic()):
                    done = self._write_one(account, kind, write, path)
                with since(time.monotonic()):
                    record = self._read_back(account, kind, write, done)
                if record is not None:
                    written.append((record, done.status == "created"))
            except Deferred as exc:
                deferred += exc.action_ids
            except HubError as exc:
                if index:
                    before = f" The inputs before {path.rstrip('.')} are accepted already."
                    if deferred:
                        before += f" A worker finishes {', '.join(deferred)}."
                    # The id of a duplicate stays at the end.
                    words, id_, tail = exc.message.partition(" Existing ID: ")
                    exc.message = f"{words}{before}{id_}{tail}"
                raise
        if deferred:
            raise Deferred(*deferred)
        return written

    def _require_time(self) -> None:
        """A caller waits for all inputs of a batch."""
        self._ends_at = self._ends_at or time.monotonic() + _BATCH_S
        if time.monotonic() > self._ends_at:
            raise Unavailable("There is no time left for this input; send it again.")

    def _write_one(
        self, account: Account, kind: Kind, write: WriteRecord | AddNote, path: str
    ) -> Done:
        try:
            done = dispatch.run(
                self.hub,
                account,
                write,
                key=self._key_of(path),
                author=self.author,
                counted=True,
                may_wait=self.may_wait,
            )
        except HubError as exc:
            error = self._to_api_error(account, kind, write, path, exc)
            if error is exc:
                raise
            raise error from exc
        if done.status == "queued":
            if refused := take_refusal(self.hub.database, account.id, done.action_id):
                # A worker has attempted it meanwhile.
                error = dispatch.refusal_of(refused)
                raise self._to_api_error(account, kind, write, path, error) from error.__cause__
            raise Deferred(done.action_id)
        return done

    def _key_of(self, path: str) -> str:
        """Return the key of one input: of fixed length, and apart from those of helpers' calls."""
        return f"api {sha256(f'{self.key} {path}'.encode()).hexdigest()}" if self.key else ""

    def _to_api_error(
        self,
        account: Account,
        kind: Kind,
        write: WriteRecord | AddNote,
        path: str,
        exc: HubError,
    ) -> HubError:
        """Return the error of a CRM with JSON paths and the hub's ids."""
        cause = exc.__cause__
        if write.record_id and not isinstance(exc, Unavailable):
            # It may be gone, or changed in part.
            self.hub.database.transact(lambda tx: copies.tell(tx, account, kind, [write.record_id]))
        if isinstance(cause, contract.Rejected) and cause.problems:
            copies.want_newer_definitions(self.hub.database, account, kind)
        elif isinstance(cause, contract.Conflict) and cause.name:
            found = self._held(account, kind, cause.existing_id)
            if found is None and cause.existing_id:
                # It is new in the CRM.
                with suppress(HubError), since(time.monotonic()):
                    read_crm.copy_record(self.hub, account, kind, cause.existing_id)
                found = self._held(account, kind, cause.existing_id)
            if found is not None:
                return unique_values.duplicate_values(kind, [(path, cause.name, found.id)])
            return Conflict(listed([(property_path(path, cause.name), cause.message)]))
        exc.message = _placed(path, exc.message)
        return exc

    def _read_back(
        self, account: Account, kind: Kind, write: WriteRecord, done: Done
    ) -> Record | None:
        """Return the record as the CRM has it; None for an archived one.

        Raises Deferred if a worker copies it later, or somebody has archived it in the CRM.
        """
        ids = {"contact_id": done.contact_id, "record_id": done.record_id}
        what = copied_writes.written_record(write.kind, asdict(write), **ids)
        try:
            with within(account.switches.deadline_s):
                adapter = connect(self.hub, account)
                is_read = copied_writes.copy(self.hub, account, adapter, what, write.properties)
        except (AdapterError, HubError):
            # It is written, whatever keeps the copy from it.
            is_read = False
        if what.is_archived:
            return None
        record = self._held(account, kind, done.record_id) if is_read else None
        if record is None:
            raise Deferred(done.action_id)
        return record

    def _held(self, account: Account, kind: Kind, crm_id: str) -> Record | None:
        """Return the copy's record; None without one, also if the copy has ended meanwhile."""
        try:
            found = self.hub.records.read_by(account, kind, copied.ID, [crm_id])
        except BadRequest:
            return None
        return found[0] if found else None


def _placed(path: str, message: str) -> str:
    """Return the message with the JSON path of its input, such as `inputs[3].`."""
    if message.startswith(("properties.", "associations")) or not path:
        return f"{path}{message}"
    return f"{path.rstrip('.')}: {message}"


def _crm_id(record: Record) -> str:
    return record.properties[copied.ID]


def _named_or_changed(
    old: Mapping[str, str], new: Mapping[str, str], named: Iterable[str]
) -> Mapping[str, str]:
    """Return what was named in any case, since the copy may lag, and what changes with it."""
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    return {name: new.get(name, "") for name in sorted(changed.union(named))}


def _sorted(versions: frozenset[int] | None) -> list[int]:
    return sorted(versions or ())


def _change_of(new: NewRecord, id: int) -> Change:
    """Return the change of an upsert by `crm_id`, which itself cannot change."""
    properties = {name: value for name, value in new.properties.items() if name != copied.ID}
    return Change(id, properties, new.path)


def _refuse_twins(catalogue: Catalogue, inputs: Sequence[NewRecord | Change]) -> None:
    """The CRM would take the first input with an email, and refuse the second."""
    named = [(each.path, each.properties) for each in inputs]
    documents.refuse_twins(_with_email_as_key(catalogue), named)


def _with_email_as_key(catalogue: Catalogue) -> Catalogue:
    """The copy may hold an email twice, but the CRM finds the contact that a lead would be."""
    keys = {
        name: replace(known, unique=True, read_only=False)
        for name in (copied.ID, *(["email"] if catalogue.kind is CONTACTS else []))
        if (known := catalogue.get(name)) is not None
    }
    return replace(catalogue, properties={**catalogue.properties, **keys})
