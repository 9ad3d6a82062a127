"""Records of an account whose CRM the hub copies: changes are made in the CRM, then in the copy.

The CRM has no transactions. The inputs of a batch are checked together by the CRM's definitions,
and then written in order; the first one that the CRM refuses ends the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TypeVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.crm.connection import as_hub_errors, connect
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.deadlines import since, within
from crmhub.errors import (
    Conflict,
    HubError,
    LimitExceeded,
    NotFound,
    Semantic,
    Unavailable,
    listed,
)
from crmhub.helpers import copied_writes, dispatch
from crmhub.helpers.attempts import Done
from crmhub.helpers.record_writes import WRITES, Links, WriteRecord
from crmhub.hub import Hub
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.properties.validation import InvalidProperties, Problem, check, property_path
from crmhub.records import associations, copied, copies, documents, unique_values, upserts, writing
from crmhub.records.models import Change, NewRecord, Record, Upsert

# A caller waits for a whole batch.
_BATCH_S = 25.0
T = TypeVar("T")


class Deferred(Unavailable):
    """The CRM has not answered; a worker finishes the write, or reads what was written.

    `action_id` is the write's action.
    """

    def __init__(self, action_id: str) -> None:
        super().__init__(f"The CRM has not answered yet; the action {action_id} finishes this.")
        self.action_id = action_id


@dataclass(slots=True)
class CrmRecords:
    """The writes of `RecordStore` and of `linking`, with the same errors; those of the CRM, too.

    `key`: the caller's Idempotency-Key, "" for none. `author`: the id of an agent's API key.
    `may_wait`: let a worker write what the CRM cannot take now. Methods raise Deferred for a write
    that a worker finishes, and Unavailable if nothing was written since the CRM is unavailable.
    """

    hub: Hub
    key: str = ""
    author: str = ""
    may_wait: bool = False
    replayed: bool = field(default=False, init=False)
    """Whether an answer repeats the one of an earlier call with the same key."""

    def create(self, account: Account, kind: Kind, inputs: Sequence[NewRecord]) -> list[Record]:
        def prepare(catalogue: Catalogue) -> list[NewRecord]:
            validate = partial(check, region=account.switches.region)
            return documents.check_new(catalogue, inputs, validate, may_lack=False)

        clean = self._checked(account, kind, prepare)
        self._require_room(account, kind, len(clean))
        links = self._crm_links(account, [(each.path, each.associations) for each in clean])
        writes = [
            (each.path, WRITES[kind.name]("", each.properties, to))
            for each, to in zip(clean, links, strict=True)
        ]
        return [record for record, _ in self._write(account, kind, writes)]

    def update(self, account: Account, kind: Kind, changes: Sequence[Change]) -> list[Record]:
        writing.same_record_twice([(each.id, each.path) for each in changes])
        current = self._present(account, kind, [(each.id, each.path) for each in changes])
        for each in changes:
            writing.check_match(kind, current[each.id], each.if_match)

        def prepare(catalogue: Catalogue) -> list[Mapping[str, str]]:
            validate = partial(check, region=account.switches.region)
            clean = documents.check_changes(catalogue, changes, validate)
            problems: list[Problem] = []
            whole = [
                documents.merged(catalogue, current[each.id], each, i, problems)
                for i, each in enumerate(clean)
            ]
            if problems:
                raise InvalidProperties(problems)
            return [
                _to_send(current[each.id].properties, new, each.properties)
                for each, new in zip(clean, whole, strict=True)
            ]

        values = self._checked(account, kind, prepare)
        links = self._crm_links(account, [(each.path, each.associations) for each in changes])
        writes = [
            (each.path, WRITES[kind.name](_crm_id(current[each.id]), sent, to))
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
        by_id = [each.value for each in prepared if each.by.name == copied.ID]
        found = self.hub.records.read_by(account, kind, copied.ID, by_id) if by_id else []
        known = {_crm_id(record) for record in found}
        if lost := [
            (f"{each.new.path}id", "no record has this crm_id, which the CRM itself issues")
            for each in prepared
            if each.by.name == copied.ID and each.value not in known
        ]:
            raise Semantic(listed(lost))
        links = self._crm_links(account, [(one.new.path, one.new.associations) for one in prepared])
        writes = []
        for each, to in zip(prepared, links, strict=True):
            sent = {name: value for name, value in each.new.properties.items() if name != copied.ID}
            by_email = each.by.name != copied.ID
            record_id = "" if by_email else each.value
            write = WRITES[kind.name](record_id, sent, to, by_email=by_email)
            writes.append((each.new.path, write))
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
        writes = [
            (path, WRITES[kind.name](_crm_id(current[id]), archives=True))
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
        write = WRITES[kind.name](
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

        write = WRITES[kind.name](
            _crm_id(current[kept_id]),
            self._checked(account, kind, prepare),
            merges=_crm_id(current[other_id]),
        )
        return self._write(account, kind, [("", write)])[0][0]

    # Checking

    def _checked(self, account: Account, kind: Kind, prepare: Callable[[Catalogue], T]) -> T:
        records = self.hub.records
        try:
            return prepare(records.catalogue(account, kind))
        except InvalidProperties:
            # The CRM may have newer definitions.
            copies.want_newer_definitions(self.hub.database, account, kind)
            raise

    def _present(
        self, account: Account, kind: Kind, ids: Sequence[tuple[int, str]]
    ) -> dict[int, Record]:
        found = self.hub.records.read(account, kind, [id for id, _ in ids])
        current = {record.id: record for record in found}
        writing.require(kind, current, ids)
        return current

    def _require_room(self, account: Account, kind: Kind, more: int) -> None:
        quota = account.plan.quotas.get(kind.name)
        if quota is not None and self.hub.records.counts(account).get(kind.code, 0) + more > quota:
            raise LimitExceeded(
                f"The plan allows {quota} {kind.name}, and no more can be stored. Archive some, or"
                " ask the operator for a larger plan."
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
        """Return each record as the copy has it, and whether it is new; none if archived."""
        ends_at = time.monotonic() + _BATCH_S
        written: list[tuple[Record, bool]] = []
        for index, (path, write) in enumerate(writes):
            try:
                if index and time.monotonic() > ends_at:
                    raise Unavailable("There is no time left for this input.")
                # The deadline of the account is for one write.
                with since(time.monotonic()):
                    done = self._write_one(account, kind, write, path)
                with since(time.monotonic()):
                    record = self._copied(account, kind, write, done)
                if record is not None:
                    written.append((record, done.status == "created"))
            except HubError as exc:
                if index:
                    exc.message += f" The inputs before {path.rstrip('.')} are written already."
                raise
        return written

    def _write_one(self, account: Account, kind: Kind, write: WriteRecord, path: str) -> Done:
        # Of fixed length, and apart from the keys of helpers' calls.
        key = sha256(f"{self.key} {path}".encode()).hexdigest() if self.key else ""
        try:
            done = dispatch.run(
                self.hub,
                account,
                write,
                key=key and f"api {key}",
                author=self.author,
                counted=True,
                may_wait=self.may_wait,
            )
        except HubError as exc:
            raise self._in_words(account, kind, write, path, exc) from exc
        self.replayed |= done.replayed
        if done.status == "queued":
            raise Deferred(done.action_id)
        return done

    def _in_words(
        self, account: Account, kind: Kind, write: WriteRecord, path: str, exc: HubError
    ) -> HubError:
        """Return the error of a CRM in the public API's words: JSON paths, and the hub's ids."""
        cause = exc.__cause__
        if isinstance(exc, NotFound) and write.record_id:
            # The copy does not know yet that the record is gone.
            self.hub.database.transact(lambda tx: copies.tell(tx, account, kind, [write.record_id]))
        if isinstance(cause, contract.Rejected) and cause.problems:
            copies.want_newer_definitions(self.hub.database, account, kind)
            problems = [(property_path(path, one.name), one.reason) for one in cause.problems]
            return Semantic(listed(problems))
        if isinstance(cause, contract.Conflict) and cause.name:
            found = self.hub.records.read_by(account, kind, copied.ID, [cause.existing_id])
            if found:
                return unique_values.duplicate_values(kind, [(path, cause.name, found[0].id)])
            return Conflict(listed([(property_path(path, cause.name), cause.message)]))
        if path:
            exc.message = f"{path.rstrip('.')}: {exc.message}"
        return exc

    def _copied(
        self, account: Account, kind: Kind, write: WriteRecord, done: Done
    ) -> Record | None:
        """Return the record as the CRM has it; None for an archived one."""
        ids = {"contact_id": done.contact_id, "record_id": done.record_id}
        with as_hub_errors(account), within(account.switches.deadline_s):
            what = copied_writes.written(write.kind, asdict(write), **ids)
            is_told = copied_writes.copy(self.hub, account, connect(self.hub, account), what)
        if what.is_archived:
            return None
        found = self.hub.records.read_by(account, kind, copied.ID, [done.record_id])
        if not (is_told and found):
            # A worker copies it soon, or somebody has archived it in the CRM meanwhile.
            raise Deferred(done.action_id)
        return found[0]


def _crm_id(record: Record) -> str:
    return record.properties[copied.ID]


def _to_send(
    old: Mapping[str, str], new: Mapping[str, str], named: Iterable[str]
) -> Mapping[str, str]:
    """Return what was named in any case, since the copy may lag, and what changes with it."""
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    return {name: new.get(name, "") for name in sorted(changed.union(named))}


def _with_email_as_key(catalogue: Catalogue) -> Catalogue:
    """The copy may hold an email twice, but the CRM finds the contact that a lead would be."""
    keys = {
        name: replace(known, unique=True, read_only=False)
        for name in (copied.ID, *(["email"] if catalogue.kind is CONTACTS else []))
        if (known := catalogue.get(name)) is not None
    }
    return replace(catalogue, properties={**catalogue.properties, **keys})
